"""Everything outside, as small Protocols; `serving.aws` implements them, tests have fakes.

An implementation raises only errors of `serving.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from serving.prediction.types import Exposure, Outcome, Traffic
from serving.release.audit import AuditEntry
from serving.release.state import ReleaseRecord
from serving.spec import Slot
from serving.spec.manifest import AliasRecord, PackageManifest, RegisteredModel
from serving.telemetry.evidence import StageEvidence


class Clock(Protocol):
    """The time, in UTC."""

    def __call__(self) -> datetime:
        """Give the time now."""
        ...


class ModelRegistry(Protocol):
    """Immutable versions and movable aliases (docs/registry.md)."""

    def push(self, archive: Path, manifest: PackageManifest, *, actor: str) -> RegisteredModel:
        """Store bytes and manifest; the same digest again is a no-op, other bytes raise VersionConflictError."""
        ...

    def versions(self, name: str | None = None) -> Sequence[RegisteredModel]:
        """List all versions, of one model or of all, by name and semantic version."""
        ...

    def manifest(self, name: str, version: str) -> PackageManifest:
        """Read one version's manifest, or raise ModelNotFoundError."""
        ...

    def alias(self, name: str, alias: str) -> AliasRecord | None:
        """Read where an alias points."""
        ...

    def refuse_unapproved(self, name: str, alias: str, version: str) -> None:
        """Raise ApprovalError where the alias is protected and the version's digest is not approved."""
        ...

    def move_alias(self, name: str, alias: str, version: str, *, actor: str, reason: str) -> AliasRecord:
        """Point an alias at a version by compare-and-set, or raise AliasConflictError or ApprovalError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call of an endpoint; `target_slot` None lets the endpoint's weights choose."""

    endpoint: str
    body: bytes
    content_type: str
    accept: str
    target_slot: Slot | None
    inference_id: str
    timeout_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InvocationResult:
    """What the endpoint answered, and the variant that did."""

    body: bytes
    content_type: str
    slot: Slot


class Invoker(Protocol):
    """InvokeEndpoint."""

    def invoke(self, call: Invocation) -> InvocationResult:
        """Call once.

        Raises:
            OverloadedError, DeadlineExceededError, InvalidRequestError, ModelFailedError: as their names say.
            EndpointError: unknown, unreachable or not in service.

        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantStatus:
    """One slot of a live endpoint: weights are relative, counts are instances."""

    slot: Slot
    weight: float
    instances: int
    desired_weight: float
    desired_instances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStatus:
    """A live endpoint: `status` in SageMaker's words (InService, Updating, …)."""

    name: str
    status: str
    variants: tuple[VariantStatus, ...]


class EndpointControl(Protocol):
    """Weights and counts of a live endpoint; what a slot holds is read, never changed."""

    def describe(self, endpoint: str) -> EndpointStatus:
        """Read the endpoint, or raise EndpointError."""
        ...

    def holds(self, endpoint: str) -> Mapping[Slot, str]:
        """Give the digest of the archive that each slot serves; a slot whose archive has no digest is left out."""
        ...

    def set_weights(self, endpoint: str, weights: Mapping[Slot, float]) -> None:
        """Ask for weights; the endpoint is Updating afterwards, counts are kept."""
        ...

    def ensure_instances(self, endpoint: str, slot: Slot, count: int) -> bool:
        """Say whether a slot has that many instances; if not, ask for them and for no fewer from now on."""
        ...

    def set_minimum(self, endpoint: str, slot: Slot, count: int) -> None:
        """Let the slot be scaled in to that many instances again; nothing to do where nothing scales it."""
        ...


class ReleaseStore(Protocol):
    """The release record, and what happened to it."""

    def get(self, model: str) -> ReleaseRecord | None:
        """Read the record as it is now; None before the first release."""
        ...

    def put(self, entry: AuditEntry, *, expected_version: int) -> None:
        """Write the entry's record and the entry itself together, or raise StaleWriteError."""
        ...

    def entry(self, model: str, version: int) -> AuditEntry | None:
        """Read what led to one version of the record."""
        ...

    def history(self, model: str, *, limit: int) -> Sequence[AuditEntry]:
        """Read the newest entries, newest first."""
        ...


class AuditLog(Protocol):
    """One object a transition, never changed."""

    def has(self, record: ReleaseRecord) -> bool:
        """Say whether the transition to this record is there."""
        ...

    def write(self, entry: AuditEntry) -> None:
        """Write it once; again is nothing."""
        ...


class EvidenceReader(Protocol):
    """Counters of a release's present stage."""

    def read(self, record: ReleaseRecord) -> StageEvidence:
        """Read them, or raise TelemetryError."""
        ...


class FeatureReader(Protocol):
    """Packed rows by entity."""

    def read(self, keys: Sequence[str], *, timeout_ms: float) -> Sequence[bytes | None]:
        """Read all keys in one round trip, None where missing, or raise FeatureStoreError."""
        ...


class TrafficSource(Protocol):
    """The release record, as the API reads it."""

    def traffic(self, model: str) -> Traffic:
        """Give the model's traffic; the last known one when the record cannot be read."""
        ...


class RecordSink(Protocol):
    """Where exposures and outcomes go; both may arrive twice and count once."""

    def exposures(self, exposures: Sequence[Exposure]) -> None:
        """Store a batch of exposures."""
        ...

    def outcome(self, outcome: Outcome) -> bool:
        """Store an outcome; False when the same event was there already."""
        ...


class MetricSink(Protocol):
    """CloudWatch custom metrics in namespace StreamHub/Inference (docs/operations.md)."""

    def put(self, name: str, value: float, *, unit: str, dimensions: Mapping[str, str], at: datetime) -> None:
        """Publish one value."""
        ...
