"""Decisions and commands applied to the record; weights follow from the record alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from serving.errors import ReleaseError
from serving.release.decide import Decision, DecisionKind
from serving.release.policy import ReleasePolicy
from serving.release.state import ReleaseRecord, ReleaseState, other_slot
from serving.spec.stage import Slot

WEIGHT_TOLERANCE = 1e-3
"""Weights are 32-bit floats at SageMaker."""

CONTROLLER = "controller"


def start(
    *,
    model: str,
    release_id: str,
    policy: str,
    production: Slot,
    versions: Mapping[Slot, str],
    weights: Mapping[Slot, float],
    instances: int,
    previous_version: int,
    salt: str,
    actor: str,
    now: datetime,
) -> ReleaseRecord:
    """Give the record of a new release; `previous_version` is the version of the record it replaces, 0 if none."""
    challenger = other_slot(production)
    return ReleaseRecord(
        release_id=release_id,
        model=model,
        policy=policy,
        state=ReleaseState.REGISTERED,
        production=production,
        challenger=challenger,
        production_version=versions[production],
        challenger_version=versions[challenger],
        stage_index=0,
        share=0.0,
        salt=salt,
        saved_weights=dict(weights),
        saved_instances=instances,
        version=previous_version + 1,
        started_at=now,
        stage_started_at=now,
        updated_at=now,
        actor=actor,
        reason="started",
    )


def apply(record: ReleaseRecord, decision: Decision, policy: ReleasePolicy, now: datetime) -> ReleaseRecord:
    """Give the record after a decision; the same record for Hold.

    Raises:
        ReleaseError: the decision does not fit the state.

    """
    if decision.kind is DecisionKind.HOLD:
        return record
    if decision.kind is DecisionKind.ADVANCE:
        return _advance(record, decision.text, policy, now)
    if not record.live:
        raise ReleaseError(f"release {record.release_id}: got {decision.kind} while {record.state}; it has no traffic")
    targets = {
        DecisionKind.PROMOTE: (ReleaseState.PROMOTING, 1.0),
        DecisionKind.ROLL_BACK: (ReleaseState.ROLLING_BACK, 0.0),
        DecisionKind.INCONCLUSIVE: (ReleaseState.INCONCLUSIVE, 0.0),
    }
    state, share = targets[decision.kind]
    return _moved(record, state=state, share=share, reason=decision.text, actor=CONTROLLER, now=now)


def _advance(record: ReleaseRecord, reason: str, policy: ReleasePolicy, now: datetime) -> ReleaseRecord:
    if record.state not in {ReleaseState.REGISTERED, ReleaseState.CANARY}:
        raise ReleaseError(f"release {record.release_id}: got advance while {record.state}; only a canary advances")
    index = _next_stage(record)
    state = ReleaseState.DECISION if policy.last_stage(index) else ReleaseState.CANARY
    moved = _moved(record, state=state, share=policy.ramp[index], reason=reason, actor=CONTROLLER, now=now)
    return replace(moved, stage_index=index, stage_started_at=now)


def _next_stage(record: ReleaseRecord) -> int:
    return 0 if record.state is ReleaseState.REGISTERED else record.stage_index + 1


def settle(record: ReleaseRecord, observed: Mapping[Slot, float], now: datetime) -> ReleaseRecord:
    """Finish what waits for the endpoint: PROMOTING and ROLLING_BACK end once the weights are as desired."""
    if not same_weights(observed, desired_weights(record)):
        return record
    if record.state is ReleaseState.PROMOTING:
        done = _moved(record, state=ReleaseState.PROMOTED, share=0.0, reason=record.reason, actor=CONTROLLER, now=now)
        return _swapped(done)
    if record.state is ReleaseState.ROLLING_BACK:
        return _moved(
            record, state=ReleaseState.ROLLED_BACK, share=0.0, reason=record.reason, actor=CONTROLLER, now=now
        )
    return record


def pause(record: ReleaseRecord, *, actor: str, reason: str, now: datetime) -> ReleaseRecord:
    """Freeze a release at its share.

    Raises:
        ReleaseError: it has no traffic, or is paused already.

    """
    if record.state not in {ReleaseState.CANARY, ReleaseState.DECISION}:
        raise ReleaseError(_refusal(record, "pause", "canary or decision"))
    moved = _moved(record, state=ReleaseState.PAUSED, share=record.share, reason=reason, actor=actor, now=now)
    return replace(moved, resume_state=record.state)


def resume(record: ReleaseRecord, *, actor: str, reason: str, now: datetime) -> ReleaseRecord:
    """Go on where `pause` froze it.

    Raises:
        ReleaseError: it is not paused.

    """
    if record.state is not ReleaseState.PAUSED or record.resume_state is None:
        raise ReleaseError(_refusal(record, "resume", "paused"))
    moved = _moved(record, state=record.resume_state, share=record.share, reason=reason, actor=actor, now=now)
    return replace(moved, resume_state=None)


def promote(record: ReleaseRecord, *, actor: str, reason: str, now: datetime) -> ReleaseRecord:
    """Promote by hand, whatever the evidence says; the record keeps who and why.

    Raises:
        ReleaseError: it has no traffic.

    """
    if not record.live:
        raise ReleaseError(_refusal(record, "promote", "canary, decision or paused"))
    moved = _moved(record, state=ReleaseState.PROMOTING, share=1.0, reason=reason, actor=actor, now=now)
    return replace(moved, resume_state=None)


def roll_back(record: ReleaseRecord, *, actor: str, reason: str, now: datetime) -> ReleaseRecord:
    """Give all traffic back to the slot that had it before the release, also after a promotion.

    Raises:
        ReleaseError: it is rolled back already, or ended without a change.

    """
    if record.state in {ReleaseState.ROLLING_BACK, ReleaseState.ROLLED_BACK, ReleaseState.INCONCLUSIVE}:
        raise ReleaseError(_refusal(record, "roll back", "any state in which the challenger has or gets traffic"))
    before = _swapped(record) if record.state is ReleaseState.PROMOTED else record
    moved = _moved(before, state=ReleaseState.ROLLING_BACK, share=0.0, reason=reason, actor=actor, now=now)
    return replace(moved, resume_state=None)


def next_share(record: ReleaseRecord, decision: Decision, policy: ReleasePolicy) -> float:
    """Give the share of traffic that the challenger has after a decision."""
    if decision.kind is DecisionKind.PROMOTE:
        return 1.0
    if decision.kind is DecisionKind.ADVANCE:
        return policy.ramp[_next_stage(record)]
    return record.share if decision.kind is DecisionKind.HOLD else 0.0


def instances_for(record: ReleaseRecord, share: float, *, production: int, most: int) -> int:
    """Give how many instances the challenger needs before it gets a share of traffic; at least 1, at most `most`."""
    return min(most, max(1, math.ceil(share * max(record.saved_instances, production) - 1e-9)))


def desired_weights(record: ReleaseRecord) -> dict[Slot, float]:
    """Give the endpoint's weights as the record wants them."""
    if record.state in {ReleaseState.ROLLING_BACK, ReleaseState.ROLLED_BACK, ReleaseState.INCONCLUSIVE}:
        return dict(record.saved_weights)
    return {record.production: 1.0 - record.share, record.challenger: record.share}


def same_weights(observed: Mapping[Slot, float], desired: Mapping[Slot, float]) -> bool:
    """Compare shares of traffic: SageMaker's weights are relative."""
    return all(
        abs(left - right) <= WEIGHT_TOLERANCE for left, right in zip(_shares(observed), _shares(desired), strict=True)
    )


def _shares(weights: Mapping[Slot, float]) -> tuple[float, float]:
    ours, theirs = weights.get("a", 0.0), weights.get("b", 0.0)
    total = ours + theirs
    return (ours / total, theirs / total) if total > 0 else (0.0, 0.0)


def _swapped(record: ReleaseRecord) -> ReleaseRecord:
    return replace(
        record,
        production=record.challenger,
        challenger=record.production,
        production_version=record.challenger_version,
        challenger_version=record.production_version,
    )


def _moved(
    record: ReleaseRecord, *, state: ReleaseState, share: float, reason: str, actor: str, now: datetime
) -> ReleaseRecord:
    return replace(
        record,
        state=state,
        share=share,
        reason=reason,
        actor=actor,
        updated_at=now,
        version=record.version + 1,
    )


def _refusal(record: ReleaseRecord, verb: str, allowed: str) -> str:
    return (
        f"release {record.release_id}: cannot {verb} while {record.state}; allowed while {allowed}; "
        f"see streamhub release status {record.model}"
    )
