"""What `decide` may never do, and what it must do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.release.decide import DecisionKind, decide
from serving.release.gates import (
    error_gate,
    harm_gate,
    latency_gate,
    sample_gate,
    split_gate,
    time_gate,
    uplift_gate,
    watch_gate,
)
from serving.release.policy import ReleasePolicy, policy_for
from serving.release.state import LIVE, ReleaseRecord, ReleaseState
from serving.release.transitions import apply
from serving.spec import ReleaseSpec
from serving.telemetry.evidence import Evidence, StageEvidence
from serving.telemetry.histogram import Histogram

MakeArm = Callable[..., Evidence]
MakeRecord = Callable[..., ReleaseRecord]

rates = st.fixed_dictionaries(
    {
        "impressions": st.sampled_from([0, 50, 20_000, 900_000, 1_000_000]),
        "ctr": st.sampled_from([0.0, 0.04, 0.05, 0.055, 0.06]),
        "errors": st.sampled_from([0.0, 0.005, 0.05]),
        "p99_ms": st.sampled_from([10.0, 10.5, 14.0]),
        "seed": st.integers(0, 3),
    }
)


@settings(max_examples=40, deadline=None)
@given(ours=rates, theirs=rates, days=st.sampled_from([0.0, 0.5, 2.0, 15.0]), stage=st.sampled_from([0, 1]))
def test_traffic_only_grows_when_every_gate_is_open(
    *,
    make_arm: MakeArm,
    make_record: MakeRecord,
    policy: ReleasePolicy,
    ours: dict[str, float],
    theirs: dict[str, float],
    days: float,
    stage: int,
) -> None:
    seen = StageEvidence(challenger=make_arm(**ours), control=make_arm(**{**theirs, "seed": 100}))
    state = ReleaseState.DECISION if stage else ReleaseState.CANARY
    record = make_record(state=state, stage=stage, share=policy.ramp[stage])
    now = record.started_at + timedelta(days=days)
    decision = decide(record, seen, policy, now)
    if decision.kind not in {DecisionKind.ADVANCE, DecisionKind.PROMOTE}:
        return
    gates = [time_gate(record, policy, now), sample_gate(seen, policy), split_gate(record, seen, policy)]
    gates += [error_gate(seen, policy), harm_gate(seen, policy), watch_gate(seen, policy)]
    if decision.kind is DecisionKind.PROMOTE:
        gates += [uplift_gate(seen, policy), latency_gate(seen, policy)]
    assert not latency_gate(seen, policy).failed
    assert [gate.gate for gate in gates if not gate.passed] == []


@pytest.mark.parametrize("state", sorted(LIVE))
@pytest.mark.parametrize("days", [0, 2, 13, 15])
def test_missing_evidence_never_moves_traffic_to_the_challenger(
    make_record: MakeRecord, policy: ReleasePolicy, state: ReleaseState, days: int
) -> None:
    record = make_record(state=state)
    decision = decide(record, None, policy, record.started_at + timedelta(days=days))
    paused = state is ReleaseState.PAUSED
    assert decision.kind is (DecisionKind.INCONCLUSIVE if days > 14 and not paused else DecisionKind.HOLD)


def test_a_ramp_waits_for_latencies_but_not_for_their_proof(
    make_arm: MakeArm, make_record: MakeRecord, policy: ReleasePolicy, later: datetime
) -> None:
    record = make_record(state=ReleaseState.CANARY, stage=0, share=0.1)
    ours, theirs = make_arm(impressions=100_000, p99_ms=10.8, seed=1), make_arm(impressions=900_000, seed=2)
    assert latency_gate(StageEvidence(challenger=ours, control=theirs), policy).verdict == "not-enough-data"
    seen = StageEvidence(challenger=ours, control=theirs)
    assert decide(record, seen, policy, later).kind is DecisionKind.ADVANCE
    unmeasured = StageEvidence(challenger=replace(ours, latency=Histogram()), control=theirs)
    hold = decide(record, unmeasured, policy, later)
    assert (hold.kind, [gate.gate for gate in hold.reasons]) == (DecisionKind.HOLD, ["p99"])


def test_a_better_challenger_is_promoted(
    make_arm: MakeArm, make_record: MakeRecord, policy: ReleasePolicy, later: datetime
) -> None:
    seen = StageEvidence(challenger=make_arm(ctr=0.055, seed=1), control=make_arm(ctr=0.05, seed=2))
    assert decide(make_record(), seen, policy, later).kind is DecisionKind.PROMOTE


def test_a_better_challenger_waits_for_whole_days(
    make_arm: MakeArm, make_record: MakeRecord, policy: ReleasePolicy
) -> None:
    seen = StageEvidence(challenger=make_arm(ctr=0.055, seed=1), control=make_arm(ctr=0.05, seed=2))
    record, longer = make_record(), replace(policy, min_stage=timedelta(hours=30))
    hold = decide(record, seen, longer, record.started_at + timedelta(hours=47))
    assert (hold.kind, [gate.gate for gate in hold.reasons]) == (DecisionKind.HOLD, ["time"])
    assert decide(record, seen, longer, record.started_at + timedelta(hours=48)).kind is DecisionKind.PROMOTE


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_failing_challenger_is_rolled_back_at_every_look(
    make_arm: MakeArm, make_record: MakeRecord, policy: ReleasePolicy, state: ReleaseState
) -> None:
    seen = StageEvidence(
        challenger=make_arm(impressions=3_000, errors=0.2, seed=1), control=make_arm(impressions=3_000, seed=2)
    )
    record = make_record(state=state)
    decision = decide(record, seen, policy, record.started_at)
    assert decision.kind is DecisionKind.ROLL_BACK
    assert "errors FAILED" in decision.text


def test_errors_that_both_slots_share_roll_nothing_back(
    make_arm: MakeArm, make_record: MakeRecord, policy: ReleasePolicy, later: datetime
) -> None:
    seen = StageEvidence(challenger=make_arm(ctr=0.055, errors=0.2, seed=1), control=make_arm(errors=0.2, seed=2))
    assert decide(make_record(), seen, policy, later).kind is DecisionKind.HOLD


@pytest.mark.parametrize(
    ("worse", "gate"), [({"p99_ms": 14.0}, "p99"), ({"ctr": 0.04}, "harm"), ({"watch_s": 4.5}, "watch")]
)
def test_a_slower_or_worse_challenger_is_rolled_back(
    *,
    make_arm: MakeArm,
    make_record: MakeRecord,
    policy: ReleasePolicy,
    later: datetime,
    worse: dict[str, float],
    gate: str,
) -> None:
    seen = StageEvidence(
        challenger=make_arm(**{"watch_s": 5.0, "seed": 1, **worse}), control=make_arm(watch_s=5.0, seed=2)
    )
    decision = decide(make_record(), seen, policy, later)
    assert (decision.kind, [reason.gate for reason in decision.reasons]) == (DecisionKind.ROLL_BACK, [gate])


def test_a_split_that_is_not_the_one_asked_for_holds_and_never_rolls_back(
    make_arm: MakeArm, make_record: MakeRecord, policy: ReleasePolicy, later: datetime
) -> None:
    seen = StageEvidence(challenger=make_arm(impressions=900_000, ctr=0.055, seed=1), control=make_arm(seed=2))
    decision = decide(make_record(), seen, policy, later)
    assert (decision.kind, [reason.gate for reason in decision.reasons]) == (DecisionKind.HOLD, ["split"])


def test_no_effect_over_much_traffic_ends_inconclusive(
    make_arm: MakeArm, make_record: MakeRecord, policy: ReleasePolicy, later: datetime
) -> None:
    seen = StageEvidence(
        challenger=make_arm(impressions=20_000_000, seed=1), control=make_arm(impressions=20_000_000, seed=2)
    )
    assert decide(make_record(), seen, policy, later).kind is DecisionKind.INCONCLUSIVE


def test_the_strict_policy_wants_the_bound_itself(
    make_arm: MakeArm, make_record: MakeRecord, policy: ReleasePolicy, later: datetime
) -> None:
    seen = StageEvidence(
        challenger=make_arm(impressions=4_000_000, ctr=0.0515, seed=1), control=make_arm(impressions=4_000_000, seed=2)
    )
    assert decide(make_record(), seen, policy, later).kind is DecisionKind.PROMOTE
    assert decide(make_record(), seen, replace(policy, strict=True), later).kind is DecisionKind.HOLD


@pytest.mark.parametrize("state", [state for state in ReleaseState if state not in LIVE | {ReleaseState.REGISTERED}])
def test_a_release_without_traffic_has_nothing_to_decide(
    make_record: MakeRecord, policy: ReleasePolicy, later: datetime, state: ReleaseState
) -> None:
    assert decide(make_record(state=state), None, policy, later).kind is DecisionKind.HOLD


def test_a_ramp_only_gives_the_challenger_more(
    make_arm: MakeArm, make_record: MakeRecord, policy: ReleasePolicy
) -> None:
    record = make_record(state=ReleaseState.REGISTERED, stage=0, share=0.0)
    shares, now = [record.share], record.started_at
    for _ in range(4):
        share = record.share or 0.5
        seen = StageEvidence(
            challenger=make_arm(impressions=int(2_000_000 * share), ctr=0.056, seed=1),
            control=make_arm(impressions=int(2_000_000 * (1 - share)), seed=2),
        )
        now += timedelta(days=2)
        record = apply(record, decide(record, seen, policy, now), policy, now)
        shares.append(record.share)
    assert shares == [0.0, 0.1, 0.5, 1.0, 1.0]
    assert record.state is ReleaseState.PROMOTING


def test_the_demo_policy_keeps_rules_and_times_of_the_spec() -> None:
    spec, demo = (policy_for(ReleaseSpec(), name=name) for name in ("spec", "demo"))
    kept = ("metric", "min_uplift", "strict", "ramp", "min_stage", "whole_days", "expires", "alpha", "max_error_rate")
    assert [getattr(demo, name) for name in kept] == [getattr(spec, name) for name in kept]


def test_outcomes_whose_exposures_were_lost_break_no_gate(
    make_arm: MakeArm, make_record: MakeRecord, policy: ReleasePolicy, later: datetime
) -> None:
    def lost(arm: Evidence) -> Evidence:
        shown = (0, *arm.impressions[1:])
        return replace(arm, impressions=shown, clicks=(5_000, *(0,) * 255), watch_s=(9.0, *(0.0,) * 255))

    seen = StageEvidence(challenger=lost(make_arm(seed=1)), control=lost(make_arm(seed=2)))
    decision = decide(make_record(), seen, policy, later)
    assert decision.kind is DecisionKind.HOLD
    assert watch_gate(seen, policy).text == "nobody sends watch times"
