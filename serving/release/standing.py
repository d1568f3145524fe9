"""How a release stands: what a tick would decide now, and whether the endpoint has the weights of the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from serving.errors import TelemetryError
from serving.release.decide import Decision, decide
from serving.release.policy import ReleasePolicy
from serving.release.state import ReleaseRecord
from serving.release.transitions import desired_weights, same_weights
from serving.spec import Slot
from serving.telemetry.evidence import StageEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The decision of now, the weights that the record wants, and whether those in force differ."""

    decision: Decision
    weights: Mapping[Slot, float]
    diverged: bool


def standing(
    record: ReleaseRecord,
    evidence: StageEvidence | None,
    policy: ReleasePolicy,
    *,
    weights: Mapping[Slot, float],
    now: datetime,
) -> Standing:
    """Look without touching; `weights` are those in force, `evidence` is None when it could not be read."""
    desired = desired_weights(record)
    return Standing(
        decision=decide(record, evidence, policy, now),
        weights=desired,
        diverged=not same_weights(weights, desired),
    )


def seen(record: ReleaseRecord, read: Callable[[ReleaseRecord], StageEvidence]) -> tuple[StageEvidence | None, str]:
    """Read a live release's evidence; None and why where it cannot be read, and nothing at all once it has ended."""
    if not record.live:
        return None, ""
    try:
        return read(record), ""
    except TelemetryError as error:
        return None, f"evidence cannot be read, which never counts as good: {error}"
