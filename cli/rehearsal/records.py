"""Where a rehearsal keeps what a release writes: records by compare-and-set and through JSON, and evidence by stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cli.rehearsal.traffic import Counters
from serving.errors import StaleWriteError, TelemetryError
from serving.prediction.types import Traffic
from serving.release.audit import AuditEntry
from serving.release.state import ReleaseRecord
from serving.spec import SLOTS, Slot
from serving.spec.codec import from_json, to_json
from serving.telemetry.evidence import Evidence, StageEvidence


@dataclass(slots=True)
class Records:
    """The table of one model's release records, and its audit log: an entry is both."""

    entries: list[bytes] = field(default_factory=list)
    current: bytes = b""

    @classmethod
    def of(cls, entries: Sequence[AuditEntry]) -> Records:
        """Give records that go on after these entries."""
        return cls([to_json(entry) for entry in entries], to_json(entries[-1].record) if entries else b"")

    def get(self, model: str) -> ReleaseRecord | None:
        """Read the record as it is now."""
        del model
        return from_json(self.current, ReleaseRecord) if self.current else None

    def put(self, entry: AuditEntry, *, expected_version: int) -> None:
        """Write an entry if the stored version is still the expected one.

        Raises:
            StaleWriteError: it is not.

        """
        if len(self.entries) != expected_version:
            raise StaleWriteError(
                f"release {entry.record.release_id}: got version {expected_version} as the newest; allowed "
                f"{len(self.entries)}; read the record and ask again"
            )
        self.entries.append(to_json(entry))
        self.current = to_json(entry.record)

    def entry(self, model: str, version: int) -> AuditEntry | None:
        """Read what led to one version of the record."""
        del model
        return from_json(self.entries[version - 1], AuditEntry) if 1 <= version <= len(self.entries) else None

    def history(self, model: str, *, limit: int) -> Sequence[AuditEntry]:
        """Read the newest entries, newest first."""
        del model
        return [from_json(entry, AuditEntry) for entry in self.entries[: -limit - 1 : -1]]

    def has(self, record: ReleaseRecord) -> bool:
        """Say whether the audit log has the transition to this record."""
        return record.version <= len(self.entries)

    def write(self, entry: AuditEntry) -> None:
        """Write nothing: `put` wrote the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEvidence:
    """One slot's evidence of one stage of one release."""

    release_id: str
    stage_index: int
    slot: Slot
    evidence: Evidence


@dataclass(slots=True)
class EvidenceCounters:
    """Counters of every stage, as the evidence table has them; `readable` says whether it can be read now."""

    readable: Callable[[], bool] = lambda: True
    _counters: dict[tuple[str, int, Slot], Counters] = field(default_factory=dict)

    def of(self, traffic: Traffic) -> dict[Slot, Counters]:
        """Give where requests of this traffic are counted: without a release they are no evidence, and forgotten."""
        if not traffic.release_id:
            return {slot: Counters() for slot in SLOTS}
        return {slot: self._of(traffic.release_id, traffic.stage_index, slot) for slot in SLOTS}

    def read(self, record: ReleaseRecord) -> StageEvidence:
        """Give what both slots saw in the record's present stage.

        Raises:
            TelemetryError: the table cannot be read now.

        """
        if not self.readable():
            raise TelemetryError("evidence: got no answer; allowed a table that can be read; it is a fault of the play")
        return self.seen(record)

    def seen(self, record: ReleaseRecord) -> StageEvidence:
        """Give the same, whoever may read it."""
        control, challenger = (
            self._of(record.release_id, record.stage_index, slot).evidence()
            for slot in (record.production, record.challenger)
        )
        return StageEvidence(control=control, challenger=challenger)

    def kept(self) -> tuple[KeptEvidence, ...]:
        """Give all of it."""
        return tuple(
            KeptEvidence(release_id=release_id, stage_index=stage_index, slot=slot, evidence=counters.evidence())
            for (release_id, stage_index, slot), counters in self._counters.items()
        )

    def restore(self, kept: Sequence[KeptEvidence]) -> None:
        """Go on from what was kept."""
        for one in kept:
            self._counters[one.release_id, one.stage_index, one.slot] = Counters.of(one.evidence)

    def _of(self, release_id: str, stage_index: int, slot: Slot) -> Counters:
        return self._counters.setdefault((release_id, stage_index, slot), Counters())
