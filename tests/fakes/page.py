"""A stack as the page sees it: a document with something in every part, served by the page's own handlers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn

from local.faults import Faults
from local.listener import bind
from local.page.actions import Actions, in_force, kinds
from local.page.document import (
    Alarm,
    DriftWindow,
    Endpoint,
    Feature,
    Gate,
    Look,
    Point,
    Release,
    State,
    TrafficTarget,
    Transition,
    Variant,
)
from local.page.server import Page, read_assets
from local.page.traffic import Answer, Burst, BurstResult, summary
from serving.errors import LocalStackError

NOW = datetime(2026, 12, 3, 10, 0, tzinfo=UTC)
RANKER = "streamhub-dev-recommendation-ranker"


def point(seconds_ago: int, *, p99_ms: float) -> Point:
    at = NOW - timedelta(seconds=seconds_ago)
    return Point(at=at, requests=40, errors=0, p50_ms=p99_ms / 2.4, p99_ms=p99_ms)


def variant(name: str, version: str, share: float, *, p99_ms: float, slope: float = 0.0) -> Variant:
    points = [
        point(ago, p99_ms=p99_ms * (1 + slope * (600 - ago) / 600 + 0.12 * (ago % 4))) for ago in range(600, 0, -15)
    ]
    return Variant(
        name=name,
        version=version,
        share=share,
        desired_share=share,
        instances=1,
        desired_instances=2 if name == "b" else 1,
        recent=points[-1],
        points=points,
    )


def idle_variant(name: str) -> Variant:
    return replace(
        variant(name, "1.0.0", 0.5, p99_ms=1.0),
        recent=Point(at=NOW, requests=0, errors=0, p50_ms=None, p99_ms=None),
        points=[],
    )


def endpoint(name: str, model: str, budget: float | None, *variants: Variant, status: str = "InService") -> Endpoint:
    return Endpoint(
        name=name,
        model=model,
        status=status,
        failure="",
        budget_p99_ms=budget,
        period_s=15,
        variants=variants,
    )


def release() -> Release:
    looks = [
        Look(
            at=NOW - timedelta(minutes=40 - number),
            stage=1,
            impressions=400 * (number + 1),
            estimate=0.05 + 0.03 * (number % 5 - 2) / (number + 1),
            lower=0.05 - 0.6 / (number + 1) ** 0.7,
            upper=0.05 + 0.6 / (number + 1) ** 0.7,
        )
        for number in range(40)
    ]
    texts = {
        "time": ("not-enough-data", "2.1 h of at least 24.0 h"),
        "sample": (
            "passed",
            "the smaller slot has 8,112 impressions (needs 5,000), 640 clicks (needs 500), 201 groups",
        ),
        "split": ("passed", "the challenger got 50.12% of traffic and should get 50.00%"),
        "p99": ("failed", "p99 31.0 ms, production's 8.2 ms, allowed 10% more"),
    }
    return Release(
        model="recommendation_ranker",
        release_id="3.0.0-20261203T080000Z",
        state="decision",
        terminal=False,
        challenger="b",
        challenger_version="3.0.0",
        production="a",
        production_version="2.0.0",
        stage=1,
        stages=2,
        share=0.5,
        actor="sam",
        reason="time and sample are enough and no guardrail is broken",
        started_at=NOW - timedelta(hours=2),
        updated_at=NOW - timedelta(minutes=40),
        decision="hold",
        rule="waiting for time",
        gates=[Gate(name=name, verdict=verdict, text=text) for name, (verdict, text) in texts.items()],
        follows=True,
        note="",
        min_uplift=0.02,
        looks=looks,
        transitions=[
            Transition(at=NOW - timedelta(minutes=40), state="decision", share=0.5, actor="controller", reason="ramp"),
            Transition(at=NOW - timedelta(hours=2), state="registered", share=0.0, actor="sam", reason="started"),
        ],
    )


def feature(name: str, size: float, level: str = "ok") -> Feature:
    return Feature(
        name=name,
        level=level,
        drifted=level == "alarm",
        significant=level != "ok",
        size=size,
        missing_share=0.002,
        unseen_share=0.01,
    )


def window() -> DriftWindow:
    return DriftWindow(
        model="recommendation_ranker",
        slot="b",
        version="3.0.0",
        start=NOW - timedelta(hours=1),
        end=NOW,
        verdict="alarm",
        text="drifted: activity (in at least 2 of 3 windows); sizes activity 0.41, freshness 0.13; warning at 0.1",
        rows=12_000,
        requests=600,
        warn_size=0.1,
        alarm_size=0.25,
        features=[
            feature("activity", 0.41, "alarm"),
            feature("freshness", 0.13, "warn"),
            feature("popularity", 0.004),
            feature("score", -0.001),
        ],
    )


def alarm(
    name: str, state: str, *, minutes: int, reason: str = "Threshold Crossed: 3 datapoints were above 12000.0"
) -> Alarm:
    return Alarm(
        name=name,
        state=state,
        since=NOW - timedelta(minutes=minutes),
        watches="ModelLatency p99 above 12000, 3 of 5 periods of 60 s",
        reason=reason,
        scales=name.startswith("TargetTracking-"),
    )


def full_state() -> State:
    """Give a document with something in every part."""
    return State(
        stage="dev",
        at=NOW,
        endpoints=[
            endpoint(
                "streamhub-dev-content-moderator", "content_moderator", 45.0, idle_variant("a"), idle_variant("b")
            ),
            endpoint(
                RANKER,
                "recommendation_ranker",
                12.0,
                variant("a", "2.0.0", 0.5, p99_ms=6.0),
                variant("b", "3.0.0", 0.5, p99_ms=9.0, slope=1.4),
                status="Updating",
            ),
        ],
        releases=[release()],
        models_without_release=["content_moderator", "thumbnail_scorer"],
        drift=[window()],
        alarms=[
            alarm(f"{RANKER}-p99-b", "ALARM", minutes=4),
            alarm(f"{RANKER}-drift", "INSUFFICIENT_DATA", minutes=30, reason="Unchecked: Initial alarm creation"),
            *(alarm(f"{RANKER}-errors-{slot}", "OK", minutes=30) for slot in "ab"),
            alarm(f"TargetTracking-endpoint/{RANKER}/variant/a-AlarmLow-1", "ALARM", minutes=9),
        ],
        faults=[],
        fault_kinds=kinds(),
        targets=[
            TrafficTarget(id="route:/v1/rank", label="route /v1/rank"),
            TrafficTarget(id=f"endpoint:{RANKER}", label=f"endpoint {RANKER}"),
        ],
        problems=[],
        left_off={},
    )


def empty_state() -> State:
    """Give the document of a stack to which nothing is deployed yet."""
    return replace(full_state(), endpoints=[], releases=[], models_without_release=[], drift=[], alarms=[], targets=[])


class ScriptedSender:
    """Answers a burst without sending it: every fourth request meets an error."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.sent: list[Burst] = []
        self.refusal = ""

    def send(self, burst: Burst) -> BurstResult:
        if self.refusal:
            raise LocalStackError(self.refusal)
        self.sent.append(burst)
        answers = [
            Answer(status=424 if number % 4 == 3 else 200, variant="ab"[number % 2], latency_ms=4.0 + number, note="")
            for number in range(burst.requests)
        ]
        return summary(burst.target, answers, planned=burst.requests, elapsed_s=0.2)


@dataclass
class Script:
    """What the page's handlers give: `state` may be changed at any time, faults are real ones."""

    folder: Path
    state: State = field(default_factory=full_state)
    sender: ScriptedSender = field(default_factory=ScriptedSender)

    @property
    def faults(self) -> Faults:
        return Faults(self.folder)

    def read(self) -> State:
        return replace(self.state, faults=[in_force(fault) for fault in self.faults.all()])

    def app(self) -> Page:
        sender: Any = self.sender
        actions = Actions(faults=self.faults, sender=sender, changed=lambda: None)
        return Page(assets=read_assets(), read=self.read, actions=actions.by_path())


class Server:
    """The page's handlers on a loopback port, which can go away and come back."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app
        self._listener = bind(0)
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/_streamhub"
        self._start()

    def go_away(self) -> None:
        """End, and refuse connections from then on."""
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(timeout=10)
        self._listener.close()

    def come_back(self) -> None:
        """Answer again, on the same port."""
        self._listener = bind(self.port)
        self._start()

    def _start(self) -> None:
        config = uvicorn.Config(self._app, log_level="error", lifespan="off", ws="none", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True)
        self._thread.start()


@contextmanager
def served(script: Script) -> Iterator[Server]:
    """Serve a script for a while."""
    server = Server(script.app())
    try:
        yield server
    finally:
        server.go_away()
