"""What the controller answers: a step it took, and how a release stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lambdas.release.slots import View
from serving.release.decide import Decision
from serving.release.state import ReleaseRecord
from serving.spec import Slot
from serving.telemetry.evidence import StageEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a tick or a command did: the record now, the decision (None for a command), and what is still to come."""

    record: ReleaseRecord
    decision: Decision | None = None
    moved: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A release as it stands: what a tick would decide now, and whether the endpoint follows the record."""

    record: ReleaseRecord
    decision: Decision
    endpoint: View
    weights: Mapping[Slot, float]
    diverged: bool
    evidence: StageEvidence | None
    note: str = ""
