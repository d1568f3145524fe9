"""Approvals: decisions about a digest, and aliases that point at approved digests alone.

A decision names bytes, never a version's name: what was looked at is what runs. Both records only grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeVar

from serving.aws.registry.layout import approvals_prefix, check_alias, protection_prefix
from serving.aws.registry.records import GrowingRecord
from serving.aws.registry.store import Store
from serving.aws.registry.versions import Versions
from serving.errors import ApprovalError
from serving.ports import Clock
from serving.spec.manifest import RegisteredModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One decision about the bytes of a version; `generation` counts the decisions about that digest from 1."""

    name: str
    version: str
    sha256: str
    decision: Literal["approved", "revoked"]
    generation: int
    actor: str
    reason: str
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """Whether an alias may point at approved digests alone; `generation` counts the changes from 1."""

    name: str
    alias: str
    required: bool
    generation: int
    actor: str
    reason: str
    decided_at: datetime


class _Decision(Protocol):
    @property
    def generation(self) -> int: ...
    @property
    def actor(self) -> str: ...
    @property
    def decided_at(self) -> datetime: ...


D = TypeVar("D", bound=_Decision)


class Approvals:
    """Who approved which bytes, and which aliases ask for it."""

    def __init__(self, store: Store, versions: Versions, *, clock: Clock) -> None:
        self._store = store
        self._versions = versions
        self._clock = clock

    def approve(self, name: str, version: str, *, actor: str, reason: str) -> Approval:
        """Approve the bytes of a version; where they are approved already, nothing changes.

        Raises:
            ModelNotFoundError: no such version.
            ApprovalError: somebody else decided in this moment.

        """
        return self._decide(name, version, "approved", actor=actor, reason=reason)

    def revoke(self, name: str, version: str, *, actor: str, reason: str) -> Approval:
        """Take the approval of a version's bytes back; aliases that point at them stay where they are.

        Raises:
            ModelNotFoundError: no such version.
            ApprovalError: nothing was approved, or somebody else decided in this moment.

        """
        return self._decide(name, version, "revoked", actor=actor, reason=reason)

    def of(self, name: str, version: str) -> Approval | None:
        """Give the last decision about a version's bytes; None before the first."""
        registered = self._versions.get(name, version).registered
        return self._record(registered).last()[1]

    def decisions(self, name: str, version: str) -> list[Approval]:
        """Give every decision about a version's bytes, oldest first."""
        return self._record(self._versions.get(name, version).registered).entries()

    def protect(self, name: str, alias: str, *, required: bool, actor: str, reason: str) -> Protection:
        """Say whether an alias may point at approved digests alone; where it is so already, nothing changes.

        Raises:
            ApprovalError: somebody else decided in this moment.

        """
        check_alias(name, alias)
        record = GrowingRecord(self._store, protection_prefix(name, alias), Protection)
        generation, last = record.last()
        if last is not None and last.required == required:
            return last
        return self._append(
            record,
            Protection(
                name=name,
                alias=alias,
                required=required,
                generation=generation + 1,
                actor=actor,
                reason=reason,
                decided_at=self._clock(),
            ),
            what=f"{name}: alias {alias!r}",
        )

    def protected(self, name: str, alias: str) -> bool:
        """Say whether an alias may point at approved digests alone."""
        check_alias(name, alias)
        last = GrowingRecord(self._store, protection_prefix(name, alias), Protection).last()[1]
        return last is not None and last.required

    def check(self, target: RegisteredModel, alias: str) -> None:
        """Refuse to point a protected alias at bytes that are not approved.

        Raises:
            ApprovalError: says what was decided, and by whom.

        """
        if not self.protected(target.name, alias):
            return
        last = self._record(target).last()[1]
        if last is None or last.decision != "approved":
            got = "no approval" if last is None else f"a revocation by {last.actor} at {last.decided_at.isoformat()}"
            raise ApprovalError(
                f"{target.name}: alias {alias!r}: got {got} of sha256 {target.sha256}; allowed an approved digest; "
                f"have it looked at, then: streamhub registry approve {target.name} {target.version}"
            )

    def _decide(
        self, name: str, version: str, decision: Literal["approved", "revoked"], *, actor: str, reason: str
    ) -> Approval:
        registered = self._versions.get(name, version).registered
        record = self._record(registered)
        generation, last = record.last()
        if last is not None and last.decision == decision:
            return last
        if last is None and decision == "revoked":
            raise ApprovalError(f"{name} {version}: got no approval of sha256 {registered.sha256}; nothing to revoke")
        return self._append(
            record,
            Approval(
                name=name,
                version=version,
                sha256=registered.sha256,
                decision=decision,
                generation=generation + 1,
                actor=actor,
                reason=reason,
                decided_at=self._clock(),
            ),
            what=f"{name} {version}",
        )

    def _append(self, record: GrowingRecord[D], decision: D, *, what: str) -> D:
        stands = record.append(decision.generation, decision)
        if stands != decision:
            raise ApprovalError(
                f"{what}: {stands.actor} decided in this moment, at {stands.decided_at.isoformat()}; "
                f"look at it, then decide again"
            )
        return decision

    def _record(self, registered: RegisteredModel) -> GrowingRecord[Approval]:
        return GrowingRecord(self._store, approvals_prefix(registered.name, registered.sha256), Approval)
