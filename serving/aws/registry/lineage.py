"""What ran where, and what came of what: read from versions and moves, decided without a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from serving.spec.manifest import AliasRecord, PackageManifest, RegisteredModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """How long an alias pointed at a version; `until` is None while it does."""

    name: str
    alias: str
    version: str
    sha256: str
    actor: str
    reason: str
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What to look for in manifests: every field that is given must fit. A commit may be shortened to 7 digits."""

    data_sha256: str = ""
    training_commit: str = ""
    file_sha256: str = ""
    spec_sha256: str = ""
    sha256: str = ""

    def fit(self, manifest: PackageManifest) -> bool:
        """Say whether a version came of these."""
        exact = (
            (self.data_sha256, {manifest.data_sha256}),
            (self.file_sha256, {entry.sha256 for entry in manifest.files}),
            (self.spec_sha256, {manifest.spec_sha256}),
            (self.sha256, {manifest.archive_sha256}),
        )
        return all(not wanted or wanted in found for wanted, found in exact) and (
            not self.training_commit or manifest.training_commit.startswith(self.training_commit)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A version that came of what was asked for, and where aliases held it."""

    registered: RegisteredModel
    training_commit: str
    data_sha256: str
    tenures: tuple[Tenure, ...]


def tenures(moves: Iterable[AliasRecord]) -> list[Tenure]:
    """Turn moves into tenures, by alias and generation; generations order them, since clocks may disagree."""
    ordered = sorted(moves, key=lambda move: (move.name, move.alias, move.generation))
    found: list[Tenure] = []
    for _, group in groupby(ordered, key=lambda move: (move.name, move.alias)):
        line = list(group)
        for move, after in zip(line, [*line[1:], None], strict=True):
            found.append(
                Tenure(
                    name=move.name,
                    alias=move.alias,
                    version=move.version,
                    sha256=move.sha256,
                    actor=move.actor,
                    reason=move.reason,
                    since=move.moved_at,
                    until=after.moved_at if after is not None else None,
                )
            )
    return found


def at(held: Sequence[Tenure], alias: str, moment: datetime) -> Tenure | None:
    """Give what an alias pointed at in a moment: the last move that had happened; None before the first."""
    return next((each for each in reversed(held) if each.alias == alias and each.since <= moment), None)


def uses(
    versions: Iterable[tuple[RegisteredModel, PackageManifest]], sources: Sources, held: Sequence[Tenure]
) -> list[Use]:
    """Give the versions that came of the sources, each with where it was."""
    return [
        Use(
            registered=registered,
            training_commit=manifest.training_commit,
            data_sha256=manifest.data_sha256,
            tenures=tuple(each for each in held if (each.name, each.sha256) == (registered.name, registered.sha256)),
        )
        for registered, manifest in versions
        if sources.fit(manifest)
    ]
