"""The decision: a pure function of the record, the evidence, the policy and the time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from serving.release.gates import (
    GateResult,
    error_gate,
    harm_gate,
    latency_gate,
    sample_gate,
    split_gate,
    time_gate,
    uplift_gate,
    watch_gate,
)
from serving.release.policy import ReleasePolicy
from serving.release.state import ReleaseRecord, ReleaseState
from serving.telemetry.evidence import StageEvidence


class DecisionKind(StrEnum):
    """What to do now."""

    HOLD = "hold"
    ADVANCE = "advance"
    PROMOTE = "promote"
    ROLL_BACK = "roll-back"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do, the rule that said so, and every gate's numbers."""

    kind: DecisionKind
    rule: str
    reasons: tuple[GateResult, ...] = ()

    @property
    def text(self) -> str:
        """One line: the rule, then the gates it rests on."""
        shown = "; ".join(gate.line for gate in self.reasons)
        return f"{self.rule}: {shown}" if shown else self.rule


def decide(record: ReleaseRecord, evidence: StageEvidence | None, policy: ReleasePolicy, now: datetime) -> Decision:
    """Say what the release does next.

    Evidence must be of the record's own stage alone: pooling stages of different shares misreads a true +2% as a
    loss when the base rate moves (docs/releases.md). None stands for evidence that could not be read.

    A broken guardrail rolls back at every look. Nothing is promoted without every gate open, nor ramped without all but
    the proof of the p99; a split that is not the one asked for, or missing data, holds until the release expires.
    """
    if record.state is ReleaseState.REGISTERED:
        return Decision(kind=DecisionKind.ADVANCE, rule="the challenger is live and waits for traffic")
    if not record.live:
        return Decision(kind=DecisionKind.HOLD, rule=f"nothing to decide while {record.state}")
    seen = evidence if evidence is not None else StageEvidence()
    guardrails = tuple(gate(seen, policy) for gate in (error_gate, latency_gate, harm_gate, watch_gate))
    broken = tuple(gate for gate in guardrails if gate.failed)
    if broken:
        return Decision(kind=DecisionKind.ROLL_BACK, rule="a guardrail is broken", reasons=broken)
    if record.state is ReleaseState.PAUSED:
        return Decision(kind=DecisionKind.HOLD, rule="paused: only a broken guardrail moves it", reasons=guardrails)
    gates = (
        time_gate(record, policy, now),
        sample_gate(seen, policy),
        split_gate(record, seen, policy),
        *guardrails,
    )
    decision = _last(seen, policy, gates) if policy.last_stage(record.stage_index) else _ramp(gates)
    if decision.kind is DecisionKind.HOLD and now - record.started_at >= policy.expires:
        return Decision(
            kind=DecisionKind.INCONCLUSIVE,
            rule="expired without a verdict: production keeps the traffic",
            reasons=decision.reasons,
        )
    return decision


def _ramp(gates: tuple[GateResult, ...]) -> Decision:
    waiting = tuple(gate for gate in gates if not gate.passed and not _proven_later(gate))
    if waiting:
        return Decision(kind=DecisionKind.HOLD, rule=_why(waiting), reasons=waiting)
    return Decision(
        kind=DecisionKind.ADVANCE, rule="time and sample are enough and no guardrail is broken", reasons=gates
    )


def _proven_later(gate: GateResult) -> bool:
    # a p99 is proven no worse in the last stage, where arms are largest; until then it must be measured and not worse
    return gate.gate == "p99" and not gate.failed and gate.numbers.get("requests", 1) > 0


def _last(evidence: StageEvidence, policy: ReleasePolicy, gates: tuple[GateResult, ...]) -> Decision:
    uplift = uplift_gate(evidence, policy)
    waiting = tuple(gate for gate in gates if not gate.passed)
    held_by_split = any(gate.gate == "split" and not gate.passed for gate in gates)
    if uplift.failed and not held_by_split:
        return Decision(
            kind=DecisionKind.INCONCLUSIVE,
            rule="the uplift asked for is out of reach: production keeps the traffic",
            reasons=(uplift, *gates),
        )
    if waiting or not uplift.passed:
        shut = waiting if uplift.passed else (*waiting, uplift)
        return Decision(kind=DecisionKind.HOLD, rule=_why(shut), reasons=shut)
    return Decision(
        kind=DecisionKind.PROMOTE,
        rule="the challenger is better, no slower, and fails no more",
        reasons=(uplift, *gates),
    )


def _why(waiting: tuple[GateResult, ...]) -> str:
    return f"waiting for {', '.join(gate.gate for gate in waiting)}"
