"""What a rehearsal writes down: hour by hour, move by move; and all it needs to go on from there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cli.rehearsal.records import KeptEvidence
from cli.rehearsal.scenario import Fault
from serving.release.audit import AuditEntry
from serving.release.gates import error_gate, latency_gate, uplift_gate
from serving.release.policy import ReleasePolicy
from serving.release.state import ReleaseRecord, ReleaseState
from serving.spec.codec import converter
from serving.telemetry.drift import DriftReport
from serving.telemetry.evidence import StageEvidence

EXIT_CODES = {ReleaseState.PROMOTED: 0, ReleaseState.ROLLED_BACK: 3, ReleaseState.INCONCLUSIVE: 4}
NO_VERDICT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is played; with the specs and the seed it fixes every number of the record.

    `peak_qps` are requests a second in the busiest hour; a tenth of it come in the quietest.
    """

    model: str
    version: str
    stage: str
    scenario: str
    seed: int
    peak_qps: float
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """One look at everything; rates, shares and uplifts are fractions of 1, None while nothing can be said.

    `share` is what the record wants for the rehearsed version, `weight` what the endpoint gives it.
    """

    at: datetime
    day: float
    state: str
    share: float
    weight: float
    status: str
    impressions: int
    challenger_impressions: int
    uplift: float | None
    uplift_lower: float | None
    uplift_upper: float | None
    p99_ms: float | None
    control_p99_ms: float | None
    error_rate: float | None
    control_error_rate: float | None
    drift_score: float | None
    drift_alarm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where a rehearsal stands after `interval` intervals; `endpoint` is JSON."""

    settings: Settings
    interval: int
    entries: tuple[AuditEntry, ...]
    evidence: tuple[KeptEvidence, ...]
    endpoint: str
    reports: tuple[DriftReport, ...]
    drift_alarm: str
    hours: tuple[Hour, ...]
    notes: tuple[str, ...]


def hour_of(
    record: ReleaseRecord,
    evidence: StageEvidence | None,
    policy: ReleasePolicy,
    *,
    at: datetime,
    day: float,
    share: float,
    weight: float,
    status: str,
    drift: DriftReport | None,
    drift_alarm: str,
) -> Hour:
    """Give one look, with what the gates say of the challenger; `evidence` is None while none is gathered."""
    seen = evidence if evidence is not None else StageEvidence()
    uplift, p99, errors = (gate(seen, policy).numbers for gate in (uplift_gate, latency_gate, error_gate))
    mine = seen.challenger.total_impressions
    return Hour(
        at=at,
        day=round(day, 4),
        state=record.state.value,
        share=round(share, 4),
        weight=round(weight, 4),
        status=status,
        impressions=mine + seen.control.total_impressions,
        challenger_impressions=mine,
        uplift=uplift.get("uplift"),
        uplift_lower=uplift.get("lower"),
        uplift_upper=uplift.get("upper"),
        p99_ms=p99.get("challenger_p99_ms"),
        control_p99_ms=p99.get("control_p99_ms"),
        error_rate=errors.get("rate"),
        control_error_rate=errors.get("control_rate"),
        drift_score=drift.max_score if drift is not None else None,
        drift_alarm=drift_alarm,
    )


def document_of(end: Checkpoint) -> dict[str, Any]:
    """Give the JSON document of a rehearsal: the same for the same settings, specs and days, byte for byte."""
    last = end.entries[-1].record
    return {
        "settings": converter().unstructure(end.settings),
        "end": {
            "state": last.state.value,
            "reason": last.reason,
            "at": last.updated_at.isoformat(),
            "production": last.production_version,
            "drift_alarm": end.drift_alarm,
            "exit_code": exit_code(end),
        },
        "moves": [move_of(entry) for entry in end.entries],
        "notes": list(end.notes),
        "hours": converter().unstructure(end.hours),
    }


def move_of(entry: AuditEntry) -> dict[str, Any]:
    """Give one transition of the record, with the numbers of every gate that it rests on."""
    record, decision = entry.record, entry.decision
    return {
        "version": record.version,
        "at": record.updated_at.isoformat(),
        "from": entry.before.state.value if entry.before is not None else None,
        "to": record.state.value,
        "share": record.share,
        "rule": decision.rule if decision is not None else record.reason.partition(": ")[0],
        "gates": converter().unstructure(decision.reasons) if decision is not None else [],
    }


def exit_code(end: Checkpoint) -> int:
    """Give 0 for promoted, 3 for rolled back, 4 for inconclusive, 5 for no verdict by the last day."""
    return EXIT_CODES.get(end.entries[-1].record.state, NO_VERDICT)
