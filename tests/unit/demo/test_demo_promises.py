"""Each promise of the demo is broken by exactly what would make it untrue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.demo import promises
from cli.demo.findings import Deployed, Deployment, Drifted, DriftWindow, Look, Outage, Released, Served
from cli.demo.promises import Promise
from cli.demo.tally import Tally

RAMP = (0.1, 0.5)


def visits(old: int, new: int, **other: int) -> Tally:
    return Tally(sent=old + new, answered=old + new, by_version={"2.0.0": old, "3.0.0": new}, **other)


def look(share: float, decision: str, *, new: int = 10) -> Look:
    return Look(
        stage=0,
        state="canary",
        share=share,
        impressions=100,
        estimate=0.3,
        lower=0.1,
        upper=0.5,
        decision=decision,
        rule="rule",
        reason="reason",
        weights={"2.0.0": 1 - share, "3.0.0": share},
        visits=visits(100 - new, new),
    )


PROMOTED = Released(
    challenger="3.0.0",
    production="2.0.0",
    ramp=RAMP,
    truth=0.38,
    looks=(look(0.1, "advance"), look(0.5, "promote", new=50)),
    decision="promote",
    reasons=("the challenger is better",),
    weights={"2.0.0": 0.0, "3.0.0": 1.0},
    alias="3.0.0",
    after=Tally(sent=40, answered=40, by_version={"3.0.0": 40}),
)
ROLLED_BACK = replace(
    PROMOTED,
    decision="roll-back",
    weights={"2.0.0": 1.0, "3.0.0": 0.0},
    alias="2.0.0",
    after=Tally(sent=40, answered=40, by_version={"2.0.0": 40}),
)
FAILING = Outage(
    kind="error",
    text="the container fails",
    degrades=True,
    during=Tally(sent=100, answered=100, degraded=48),
    recovered_s=0.1,
    after=Tally(sent=100, answered=100),
)
TAKEN_BACK = Outage(
    kind="unhealthy",
    text="a deployment",
    degrades=False,
    during=Tally(sent=100, answered=100),
    recovered_s=0.1,
    after=Tally(sent=100, answered=100),
    deployment=Deployment(asked="new", before="old", after="old", status="InService", failure="no ping"),
)
QUIET = DriftWindow(
    label="as trained", visits=300, score=0.02, drifted_share=0.0, worst_feature="activity", alarm_state="OK"
)
LOUD = replace(QUIET, label="drifted on", score=3.0, alarm_state="ALARM")
DRIFTED = Drifted(alarm_size=0.25, windows=(QUIET, replace(LOUD, alarm_state="OK"), LOUD))
DEPLOYED = Deployed(by_cdk=True, stacks={"one": "CREATE_COMPLETE"}, endpoints={"ranker": "InService"}, models=[])
SERVED = Served(routes=visits(5, 5), function={"/v1/rank": 200}, function_wanted={"/v1/rank": 200})


def kept(found: tuple[Promise, ...]) -> bool:
    return all(promise.kept for promise in found)


def test_what_went_as_it_should_keeps_every_promise() -> None:
    assert kept(promises.deployed(DEPLOYED))
    assert kept(promises.served(SERVED))
    assert kept(promises.promoted(PROMOTED))
    assert kept(promises.rolled_back(ROLLED_BACK))
    assert kept(promises.survived((FAILING, TAKEN_BACK)))
    assert kept(promises.drifted(DRIFTED))
    assert kept(promises.taken_down(left=False))


@pytest.mark.parametrize(
    "broken",
    [
        {"stacks": {"one": "CREATE_COMPLETE", "two": "ROLLBACK_COMPLETE"}},
        {"stacks": {}},
        {"endpoints": {"ranker": "Failed"}},
        {"endpoints": {}},
    ],
    ids=["a stack that went back", "no stack", "a failed endpoint", "no endpoint"],
)
def test_a_deploy_that_is_not_whole_breaks_its_promise(broken: dict[str, dict[str, str]]) -> None:
    assert not kept(promises.deployed(replace(DEPLOYED, **broken)))


@pytest.mark.parametrize("status", [500, 501, 200])
def test_a_function_that_answers_another_status_breaks_its_promise(status: int) -> None:
    found = replace(SERVED, function={"/v1/rank": status})
    assert kept(promises.served(found)) == (status == 200)


@pytest.mark.parametrize("decision", ["roll-back", "inconclusive", "hold"])
def test_only_a_promotion_by_the_evidence_is_one(decision: str) -> None:
    assert not kept(promises.promoted(replace(PROMOTED, decision=decision)))


@pytest.mark.parametrize(
    "broken",
    [
        {"looks": (look(0.5, "promote"),)},
        {"weights": {"2.0.0": 0.5, "3.0.0": 0.5}},
        {"alias": "2.0.0"},
        {"after": visits(1, 39)},
        {"after": Tally()},
    ],
    ids=["no canary", "weights that did not follow", "an alias that stayed", "an old answer", "no visits"],
)
def test_a_promotion_that_is_not_whole_breaks_its_promise(broken: dict[str, object]) -> None:
    assert not kept(promises.promoted(replace(PROMOTED, **broken)))  # type: ignore[arg-type]


@pytest.mark.parametrize("decision", ["promote", "inconclusive", "hold"])
def test_only_a_rollback_by_the_evidence_is_one(decision: str) -> None:
    assert not kept(promises.rolled_back(replace(ROLLED_BACK, decision=decision)))


@pytest.mark.parametrize(
    "broken",
    [
        {"looks": (look(1.0, "roll-back"),)},
        {"looks": (look(0.1, "roll-back", new=100),)},
        {"weights": {"2.0.0": 0.9, "3.0.0": 0.1}},
        {"alias": "3.0.0"},
        {"after": visits(39, 1)},
    ],
    ids=["all weight on it", "all answers from it", "weights that stayed", "the alias on it", "an answer from it"],
)
def test_a_worse_version_that_keeps_traffic_breaks_its_promise(broken: dict[str, object]) -> None:
    assert not kept(promises.rolled_back(replace(ROLLED_BACK, **broken)))  # type: ignore[arg-type]


@pytest.mark.parametrize("release", [PROMOTED, ROLLED_BACK], ids=["better", "worse"])
@pytest.mark.parametrize("name", ["lost", "errors"])
def test_one_request_lost_in_a_release_breaks_its_promise(release: Released, name: str) -> None:
    judge = promises.promoted if release is PROMOTED else promises.rolled_back
    lost = replace(release.after, sent=release.after.sent + 1, **{name: 1})
    assert not kept(judge(replace(release, after=lost)))


@given(shares=st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_a_rolled_back_release_never_asked_for_more_than_its_ramp(shares: list[float]) -> None:
    found = replace(ROLLED_BACK, looks=tuple(look(share, "hold") for share in shares))
    assert kept(promises.rolled_back(found)) == (max(shares) <= RAMP[-1])


@pytest.mark.parametrize(
    "broken",
    [
        {"during": Tally(sent=100, answered=100)},
        {"during": Tally(sent=100, answered=99, degraded=48, lost=1)},
        {"during": Tally(sent=100, answered=99, degraded=48, errors=1)},
        {"after": Tally(sent=100, answered=100, degraded=1)},
        {"after": Tally(sent=100, answered=99, lost=1)},
        {"after": Tally()},
    ],
    ids=["never met", "one lost", "one refused", "one degraded afterwards", "one lost afterwards", "never looked"],
)
def test_a_fault_that_costs_an_answer_or_is_never_met_breaks_its_promise(broken: dict[str, Tally]) -> None:
    assert not kept(promises.survived((TAKEN_BACK, replace(FAILING, **broken))))


@pytest.mark.parametrize(
    "deployment",
    [
        None,
        Deployment(asked="new", before="old", after="new", status="InService", failure=""),
        Deployment(asked="new", before="old", after="old", status="Updating", failure=""),
    ],
    ids=["none", "it went through", "it never ended"],
)
def test_a_deployment_that_is_not_taken_back_breaks_its_promise(deployment: Deployment | None) -> None:
    assert not kept(promises.survived((replace(TAKEN_BACK, deployment=deployment),)))


def test_a_deployment_that_degrades_answers_breaks_its_promise() -> None:
    during = replace(TAKEN_BACK.during, degraded=1)
    assert not kept(promises.survived((replace(TAKEN_BACK, during=during),)))


@pytest.mark.parametrize(
    "windows",
    [(), (LOUD, LOUD), (QUIET, replace(LOUD, alarm_state="OK")), (QUIET, replace(LOUD, score=0.1))],
    ids=["no windows", "an alarm from the start", "a silent alarm", "an alarm of nothing"],
)
def test_an_alarm_at_the_wrong_time_or_never_breaks_its_promise(windows: tuple[DriftWindow, ...]) -> None:
    assert not kept(promises.drifted(replace(DRIFTED, windows=windows)))


def test_a_process_that_is_left_breaks_the_last_promise() -> None:
    assert not kept(promises.taken_down(left=True))
