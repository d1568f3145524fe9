"""A demo's findings as they could be, for tests of what is made of them."""

from __future__ import annotations

from pathlib import Path

from cli.demo import promises
from cli.demo.findings import Deployed, Deployment, Drifted, DriftWindow, Look, Outage, Released, Served
from cli.demo.result import DemoResult, Scene
from cli.demo.tally import RouteLatency, Tally

HOSTILE = "<script>alert(1)</script>"


def looks(*, better: bool) -> tuple[Look, ...]:
    """Give a canary look without an estimate and two of the decision stage; the rule has markup in it."""
    sign = 1 if better else -1
    stages = ((0, "canary", 0.1, None), (1, "decision", 0.5, 0.35), (1, "decision", 0.5, 0.37))
    return tuple(
        Look(
            stage=stage,
            state=state,
            share=share,
            impressions=600 * (number + 1),
            estimate=sign * estimate if estimate is not None else None,
            lower=sign * estimate - 0.2 if estimate is not None else None,
            upper=sign * estimate + 0.2 if estimate is not None else None,
            decision="hold",
            rule=HOSTILE,
            reason=HOSTILE,
            weights={"2.0.0": 1 - share, "3.0.0": share},
            visits=Tally(sent=600, answered=600, by_version={"2.0.0": round(600 * (1 - share)), "3.0.0": 60}),
        )
        for number, (stage, state, share, estimate) in enumerate(stages)
    )


def released(*, better: bool) -> Released:
    """Give one release."""
    winner = "3.0.0"
    return Released(
        challenger="3.0.0" if better else "2.0.0",
        production="2.0.0" if better else "3.0.0",
        ramp=(0.1, 0.5),
        truth=0.38 if better else -0.28,
        looks=looks(better=better),
        decision="promote" if better else "roll-back",
        reasons=(HOSTILE, "uplift: click rate uplift +37.53% (surely between +19.38% and +55.68%)", "time: 48.0 h"),
        weights={"2.0.0": 0.0, winner: 1.0},
        alias=winner,
        after=Tally(sent=200, answered=200, by_version={winner: 200}),
    )


def outages() -> tuple[Outage, ...]:
    """Give a fault that degrades and a deployment that goes back."""
    after = Tally(sent=200, answered=200)
    deployment = Deployment(asked="new", before="old", after="old", status="InService", failure="no ping was answered")
    return (
        Outage(
            kind="error",
            text="the container fails half of its calls",
            degrades=True,
            during=Tally(sent=200, answered=200, degraded=97, reasons={"fallback_model": 97}),
            recovered_s=0.1,
            after=after,
        ),
        Outage(
            kind="unhealthy",
            text="a deployment of unhealthy containers",
            degrades=False,
            during=Tally(sent=36, answered=36),
            recovered_s=0.1,
            after=after,
            deployment=deployment,
        ),
    )


def whole(routes: tuple[str, ...]) -> DemoResult:
    """Give a demo in which every scene came."""
    quiet = DriftWindow(
        label="as trained", visits=300, score=0.02, drifted_share=0.0, worst_feature="activity", alarm_state="OK"
    )
    loud = DriftWindow(
        label="drifted on", visits=300, score=6.5, drifted_share=0.4, worst_feature="activity", alarm_state="ALARM"
    )
    found = DemoResult(stage="dev", pace="fast", planned=("deploy", "releases"), shortened=("one fault of three",))
    found.deployed = Deployed(
        by_cdk=True,
        stacks={"one": "CREATE_COMPLETE"},
        endpoints={"ranker": "InService"},
        models=[{"name": "recommendation_ranker", "version": "3.0.0", "digest": "f" * 64}],
    )
    found.served = Served(routes=Tally(sent=10, answered=10), function=dict.fromkeys(routes, 200))
    found.better, found.worse = released(better=True), released(better=False)
    found.outages = outages()
    found.drift = Drifted(alarm_size=0.25, windows=(quiet, loud))
    found.routes = dict.fromkeys(routes, RouteLatency(requests=4, p50=5.0, p90=9.0, p99=40.0))
    found.total = Tally(sent=5_000, answered=5_000, degraded=97)
    found.scenes = [
        Scene(title="deploy", seconds=20.0, promises=promises.deployed(found.deployed)),
        Scene(title="releases", seconds=30.0, promises=promises.promoted(found.better)),
    ]
    return found


def broken_off() -> DemoResult:
    """Give a demo whose first scene did not keep its promise: nothing else was seen."""
    found = DemoResult(stage="dev", pace="full", planned=("deploy", "releases"))
    found.deployed = Deployed(by_cdk=True, stacks={"one": "ROLLBACK_COMPLETE"}, endpoints={}, models=[])
    found.scenes = [Scene(title="deploy", seconds=20.0, promises=promises.deployed(found.deployed))]
    found.report = Path("report.html")
    return found
