"""Aliases: moved by compare-and-set, every move on record (docs/adr/0010)."""

from __future__ import annotations

from collections.abc import Sequence

from serving.aws.registry import records
from serving.aws.registry.approval import Approvals
from serving.aws.registry.layout import alias_key, aliases_prefix, check_alias, check_name, log_key, log_prefix
from serving.aws.registry.records import Found
from serving.aws.registry.store import Store
from serving.aws.registry.versions import Versions
from serving.errors import AliasConflictError, ModelNotFoundError
from serving.ports import Clock
from serving.spec import codec
from serving.spec.manifest import AliasRecord, RegisteredModel


class Aliases:
    """Where names such as `production` point, and where they pointed."""

    def __init__(self, store: Store, versions: Versions, approvals: Approvals, *, clock: Clock) -> None:
        self._store = store
        self._versions = versions
        self._approvals = approvals
        self._clock = clock

    def get(self, name: str, alias: str) -> AliasRecord | None:
        """Read where an alias points; None where there is none."""
        found = self._read(name, alias)
        return found.value if found is not None else None

    def all(self, name: str) -> list[AliasRecord]:
        """Read all aliases of a model, by name."""
        check_name(name)
        return list(records.read_all(self._store, aliases_prefix(name), AliasRecord))

    def move(self, name: str, alias: str, version: str, *, actor: str, reason: str) -> AliasRecord:
        """Point an alias at a version by compare-and-set; where it points there already, nothing changes.

        Raises:
            ModelNotFoundError: no such version.
            ApprovalError: the alias is protected, and the version's digest is not approved.
            AliasConflictError: somebody else moved it between the read and the write; says who.

        """
        target = self._versions.get(name, version).registered
        current = self._read(name, alias)
        if current is not None and current.value.version == version:
            return current.value
        return self._move(target, alias, current, actor=actor, reason=reason)

    def roll_back(
        self, name: str, alias: str, *, actor: str, reason: str, bad_version: str | None = None
    ) -> AliasRecord:
        """Point an alias at the version it pointed at before.

        Args:
            name: the model.
            alias: which alias.
            actor: who does it.
            reason: why.
            bad_version: where it must point now. A second roll-back would return to what the first one left; with this
                it is refused instead.

        Raises:
            ModelNotFoundError: no such alias, or it never moved.
            ApprovalError, AliasConflictError: as for a move; or it does not point at `bad_version`.

        """
        current = self._read(name, alias)
        if current is not None and bad_version not in {None, current.value.version}:
            raise AliasConflictError(
                f"{name}: alias {alias!r}: got version {current.value.version}, where {current.value.actor} moved it "
                f"at {current.value.moved_at.isoformat()} ({current.value.reason}); allowed {bad_version}; "
                f"nothing was moved"
            )
        if current is None or current.value.previous is None:
            got = "no such alias" if current is None else f"version {current.value.version} and none before it"
            raise ModelNotFoundError(
                f"{name}: alias {alias!r}: got {got}; allowed an alias that was moved; "
                f"name the version: streamhub registry alias {name} {alias} VERSION"
            )
        target = self._versions.get(name, current.value.previous).registered
        return self._move(target, alias, current, actor=actor, reason=reason)

    def history(self, name: str) -> Sequence[AliasRecord]:
        """Give every move of every alias of a model, oldest first."""
        check_name(name)
        # an alias may have moved while its writer stopped before the log
        moves = {(move.alias, move.generation): move for move in self.all(name)}
        for move in records.read_all(self._store, log_prefix(name), AliasRecord):
            moves[move.alias, move.generation] = move
        return sorted(moves.values(), key=lambda move: (move.moved_at, move.alias, move.generation))

    def _move(
        self, target: RegisteredModel, alias: str, current: Found[AliasRecord] | None, *, actor: str, reason: str
    ) -> AliasRecord:
        self._approvals.check(target, alias)
        if current is not None:
            # a writer may have stopped between the alias and its log: the log is whole before the alias moves on
            self._log(current.value)
        record = AliasRecord(
            name=target.name,
            alias=alias,
            version=target.version,
            sha256=target.sha256,
            previous=current.value.version if current is not None else None,
            generation=current.value.generation + 1 if current is not None else 1,
            actor=actor,
            reason=reason,
            moved_at=self._clock(),
        )
        key, data = alias_key(target.name, alias), codec.to_json(record)
        done = self._store.put_new(key, data) if current is None else self._store.replace(key, data, etag=current.etag)
        # a repeated request finds its own first attempt there, when only the answer to that one was lost
        if not done and (stands := self.get(target.name, alias)) != record:
            raise _conflict(record, stands)
        self._log(record)
        return record

    def _log(self, record: AliasRecord) -> None:
        self._store.put_new(log_key(record.name, record.alias, record.generation), codec.to_json(record))

    def _read(self, name: str, alias: str) -> Found[AliasRecord] | None:
        check_alias(name, alias)
        return records.read(self._store, alias_key(name, alias), AliasRecord)


def _conflict(wanted: AliasRecord, stands: AliasRecord | None) -> AliasConflictError:
    who = (
        f"{stands.actor} moved it to {stands.version} at {stands.moved_at.isoformat()} (move {stands.generation}: "
        f"{stands.reason})"
        if stands is not None and stands.generation >= wanted.generation
        else "somebody else is moving it"
    )
    return AliasConflictError(
        f"{wanted.name}: alias {wanted.alias!r}: got a move to {wanted.version} by {wanted.actor}, but {who} in this "
        f"moment; look with `streamhub registry history {wanted.name}`, then decide again"
    )
