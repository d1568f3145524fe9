"""What an archive is, after it was built: the manifest, and the registry's words for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from serving.spec.evidence import Conversion, Origin, Parity
from serving.spec.tensors import TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file of an archive: POSIX path inside it, size and lower-case hex SHA-256."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageManifest:
    """All that is known of one version's bytes; written beside the archive and into the registry.

    Holds no time of building: the same inputs give the same manifest. `thresholds` maps
    `block` and `review` to label → score, so that versions in slots a and b may differ. `parity` is with the network
    that was trained, `conversion` what was done to its weights on packaging, `origin` where they were imported from;
    each is None where nothing was. Of a `prefix` (files as they are, in no tar) `archive_sha256` is the `tree_sha256`
    of its files, `size_bytes` their sum.
    """

    name: str
    version: str
    archive_sha256: str
    size_bytes: int
    files: tuple[FileEntry, ...]
    spec_sha256: str
    runtime: str
    image: str
    licence: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    labels: tuple[str, ...]
    thresholds: dict[str, dict[str, float]]
    metrics: dict[str, float]
    training_commit: str
    data_sha256: str
    baseline: dict[str, object]
    toolchain: dict[str, str]
    parity: Parity | None = None
    conversion: Conversion | None = None
    layout: Literal["archive", "prefix"] = "archive"
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedVersion:
    """A version's digest as committed in `models/<name>/model.lock.json`: what synth may name."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredModel:
    """One immutable version in the registry; `s3_uri` is the digest-named blob."""

    name: str
    version: str
    sha256: str
    s3_uri: str
    created_at: datetime
    created_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRecord:
    """Where an alias points; `generation` counts its moves from 1, `previous` is the version before (or None)."""

    name: str
    alias: str
    version: str
    sha256: str
    previous: str | None
    generation: int
    actor: str
    reason: str
    moved_at: datetime


def blob_key(name: str, sha256: str) -> str:
    """The S3 key of an archive: named by its content, so bytes under it never change."""
    return f"models/{name}/blobs/sha256/{sha256}/model.tar.gz"


def tree_prefix(name: str, sha256: str) -> str:
    """The S3 prefix of a package that is no archive: its files as they are, below the digest of them all."""
    return f"models/{name}/blobs/sha256/{sha256}/files/"


def tree_sha256(files: Iterable[FileEntry]) -> str:
    """Give the digest of a folder: SHA-256 over `<sha256>  <size>  <path>` lines, sorted by path."""
    lines = (
        f"{entry.sha256}  {entry.size_bytes}  {entry.path}\n" for entry in sorted(files, key=lambda each: each.path)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()
