"""The model registry in S3: versions that never change, aliases that move by compare-and-set.

models/<name>/blobs/sha256/<digest>/model.tar.gz  the bytes, under their own name
models/<name>/versions/<version>.json             written last: a version is visible only when it is whole
models/<name>/aliases/<alias>.json                the truth of an alias: its last move
models/<name>/log/<alias>/<generation>.json       every move, written once
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from serving.aws.registry.store import MAX_PUT_BYTES, S3Objects
from serving.aws.session import client
from serving.errors import AliasConflictError, ModelNotFoundError, RegistryError, VersionConflictError
from serving.ports import Clock
from serving.spec import codec
from serving.spec.manifest import AliasRecord, PackageManifest, RegisteredModel, blob_key
from serving.spec.versions import is_semantic, order

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

_MODELS = "models/"
_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_ALIAS = re.compile(r"[a-z][a-z0-9_-]*", re.ASCII)
_UPLOAD_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    """What `versions/<version>.json` holds."""

    registered: RegisteredModel
    manifest: PackageManifest


def connect(bucket: str) -> S3ModelRegistry:
    """Give the registry of a bucket, with region, credentials and endpoint of the environment."""
    return S3ModelRegistry(bucket, client("s3", read_timeout_s=_UPLOAD_TIMEOUT_S), clock=lambda: datetime.now(UTC))


class S3ModelRegistry:
    """`serving.ports.ModelRegistry` on one bucket."""

    def __init__(self, bucket: str, client: S3Client, *, clock: Clock) -> None:
        self._objects = S3Objects(bucket, client)
        self._clock = clock

    def push(self, archive: Path, manifest: PackageManifest, *, actor: str) -> RegisteredModel:
        """Store bytes and manifest; the same digest again is a no-op.

        An interrupted push leaves at most the bytes, which the next one finds and uses.

        Raises:
            VersionConflictError: other bytes stand under that version.
            RegistryError: the archive is not what its manifest says, or the bucket refuses.

        """
        _check(manifest.name, manifest.version)
        _check_archive(archive, manifest)  # first: a damaged copy of what is stored already is no success
        if (known := self._version(manifest.name, manifest.version)) is not None:
            return _same(known, manifest)
        self._upload(archive, manifest)
        registered = RegisteredModel(
            name=manifest.name,
            version=manifest.version,
            sha256=manifest.archive_sha256,
            s3_uri=f"s3://{self._objects.bucket}/{blob_key(manifest.name, manifest.archive_sha256)}",
            created_at=self._clock(),
            created_by=actor,
        )
        record = codec.to_json(_Version(registered=registered, manifest=manifest))
        if self._objects.put_new(_version_key(manifest.name, manifest.version), record):
            return registered
        if (winner := self._version(manifest.name, manifest.version)) is None:
            raise RegistryError(f"{manifest.name} {manifest.version}: another writer is at it; push it again")
        return _same(winner, manifest)

    def _upload(self, archive: Path, manifest: PackageManifest) -> None:
        key = blob_key(manifest.name, manifest.archive_sha256)
        if self._objects.upload_new(key, archive, sha256=manifest.archive_sha256):
            return
        stored = self._objects.content_of(key)
        wanted = (manifest.size_bytes, manifest.archive_sha256)
        if stored != wanted:
            raise RegistryError(
                f"s3://{self._objects.bucket}/{key}: got size and SHA-256 {stored}; allowed {wanted}, which its name "
                f"promises; somebody wrote there by hand: remove that object and push again"
            )

    def versions(self, name: str | None = None) -> Sequence[RegisteredModel]:
        """List all versions, of one model or of all, by name and semantic version."""
        if name is not None:
            _check(name)
        names = [name] if name is not None else sorted(self._objects.folders(_MODELS))
        found = [
            self._stored(key, _Version).registered
            for each in names
            for key in self._objects.keys(f"{_MODELS}{each}/versions/")
        ]
        return sorted(found, key=lambda model: (model.name, order(model.version)))

    def registered(self, name: str, version: str) -> RegisteredModel:
        """Read one version's entry, or raise ModelNotFoundError."""
        return self._found(name, version).registered

    def manifest(self, name: str, version: str) -> PackageManifest:
        """Read one version's manifest, or raise ModelNotFoundError."""
        return self._found(name, version).manifest

    def alias(self, name: str, alias: str) -> AliasRecord | None:
        """Read where an alias points."""
        found = self._alias(name, alias)
        return found[0] if found is not None else None

    def aliases(self, name: str) -> Sequence[AliasRecord]:
        """Read all aliases of a model, by name."""
        _check(name)
        return [self._stored(key, AliasRecord) for key in sorted(self._objects.keys(f"{_MODELS}{name}/aliases/"))]

    def move_alias(self, name: str, alias: str, version: str, *, actor: str, reason: str) -> AliasRecord:
        """Point an alias at a version by compare-and-set; where it points there already, nothing changes.

        Raises:
            ModelNotFoundError: no such version.
            AliasConflictError: somebody else moved it between the read and the write.

        """
        target = self.registered(name, version)
        current = self._alias(name, alias)
        if current is not None and current[0].version == version:
            return current[0]
        return self._move(target, alias, current, actor=actor, reason=reason)

    def roll_back_alias(self, name: str, alias: str, *, actor: str, reason: str) -> AliasRecord:
        """Point an alias at the version it pointed at before.

        Raises:
            ModelNotFoundError: no such alias, or it never moved.
            AliasConflictError: somebody else moved it between the read and the write.

        """
        current = self._alias(name, alias)
        if current is None or current[0].previous is None:
            got = "no such alias" if current is None else f"version {current[0].version} and none before it"
            raise ModelNotFoundError(
                f"{name}: alias {alias!r}: got {got}; allowed an alias that was moved; "
                f"name the version: streamhub registry alias {name} {alias} VERSION"
            )
        target = self.registered(name, current[0].previous)
        return self._move(target, alias, current, actor=actor, reason=reason)

    def history(self, name: str) -> Sequence[AliasRecord]:
        """Give every move of every alias of a model, oldest first."""
        _check(name)
        moves = {_log_key(record): record for record in self.aliases(name)}
        for key in self._objects.keys(f"{_MODELS}{name}/log/"):
            moves[key] = self._stored(key, AliasRecord)
        return sorted(moves.values(), key=lambda record: (record.moved_at, record.alias, record.generation))

    def _move(
        self, target: RegisteredModel, alias: str, current: tuple[AliasRecord, str] | None, *, actor: str, reason: str
    ) -> AliasRecord:
        if current is not None:
            # a writer may have stopped between the alias and its log: the log is whole before the alias moves on
            self._objects.put_new(_log_key(current[0]), codec.to_json(current[0]))
        record = AliasRecord(
            name=target.name,
            alias=alias,
            version=target.version,
            sha256=target.sha256,
            previous=current[0].version if current is not None else None,
            generation=current[0].generation + 1 if current is not None else 1,
            actor=actor,
            reason=reason,
            moved_at=self._clock(),
        )
        key, data = _alias_key(target.name, alias), codec.to_json(record)
        done = (
            self._objects.put_new(key, data) if current is None else self._objects.replace(key, data, etag=current[1])
        )
        # a repeated request finds its own first attempt there, when only the answer to that one was lost
        if not done and self.alias(target.name, alias) != record:
            raise AliasConflictError(
                f"{target.name}: alias {alias!r}: somebody else moved it in this moment; "
                f"look with `streamhub registry history {target.name}`, then decide again"
            )
        self._objects.put_new(_log_key(record), data)
        return record

    def _alias(self, name: str, alias: str) -> tuple[AliasRecord, str] | None:
        _check(name)
        if not _ALIAS.fullmatch(alias):
            raise RegistryError(f"alias: got {alias!r}; allowed lower-case letters, digits, - and _; rename it")
        stored = self._objects.read(_alias_key(name, alias))
        return (_decode(stored.data, AliasRecord, _alias_key(name, alias)), stored.etag) if stored is not None else None

    def _found(self, name: str, version: str) -> _Version:
        _check(name, version)
        found = self._version(name, version)
        if found is None:
            have = ", ".join(model.version for model in self.versions(name)) or "none"
            raise ModelNotFoundError(
                f"{name}: version: got {version!r}, which is not in the registry; it has {have}; push it first"
            )
        return found

    def _version(self, name: str, version: str) -> _Version | None:
        stored = self._objects.read(_version_key(name, version))
        return _decode(stored.data, _Version, _version_key(name, version)) if stored is not None else None

    def _stored(self, key: str, cls: type[T]) -> T:
        stored = self._objects.read(key)
        if stored is None:
            raise RegistryError(f"s3://{self._objects.bucket}/{key}: it vanished while it was read; try again")
        return _decode(stored.data, cls, key)


def _decode(data: bytes, cls: type[T], key: str) -> T:
    try:
        return codec.from_json(data, cls)
    except ValueError as error:
        raise RegistryError(f"{key}: {error}; allowed what `streamhub registry` writes; restore that object") from None


def _same(known: _Version, manifest: PackageManifest) -> RegisteredModel:
    if known.registered.sha256 != manifest.archive_sha256:
        raise VersionConflictError(
            f"{manifest.name} {manifest.version}: got sha256 {manifest.archive_sha256}; "
            f"the registry holds {known.registered.sha256}, and a version's bytes never change; choose a new version"
        )
    return known.registered


def _check(name: str, version: str | None = None) -> None:
    if not _NAME.fullmatch(name):
        raise RegistryError(f"model: got {name!r}; allowed lower-case letters, digits and _; correct the name")
    if version is not None and not is_semantic(version):
        raise RegistryError(f"{name}: version: got {version!r}; allowed X.Y.Z; correct it")


def _check_archive(archive: Path, manifest: PackageManifest) -> None:
    try:
        with archive.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        size = archive.stat().st_size
    except OSError as error:
        raise RegistryError(f"{archive}: got no readable file ({error.strerror}); check the path") from None
    if sha256 != manifest.archive_sha256:
        raise RegistryError(
            f"{archive}: got sha256 {sha256}; allowed {manifest.archive_sha256} of its manifest; package it again"
        )
    if size >= MAX_PUT_BYTES:
        raise RegistryError(
            f"{archive}: got {size} bytes; allowed less than {MAX_PUT_BYTES} in one archive; "
            f"host a larger model as an uncompressed S3 prefix"
        )


def _version_key(name: str, version: str) -> str:
    return f"{_MODELS}{name}/versions/{version}.json"


def _alias_key(name: str, alias: str) -> str:
    return f"{_MODELS}{name}/aliases/{alias}.json"


def _log_key(record: AliasRecord) -> str:
    return f"{_MODELS}{record.name}/log/{record.alias}/{record.generation:010d}.json"
