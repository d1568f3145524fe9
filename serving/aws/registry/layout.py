"""Where everything lies in the registry's bucket, and the names that may become keys.

models/<name>/blobs/sha256/<digest>/model.tar.gz              an archive, under its own digest
models/<name>/blobs/sha256/<digest>/files/<path>              an uncompressed prefix, under its tree digest
models/<name>/versions/<version>.json                         written last: a version is visible only when it is whole
models/<name>/aliases/<alias>.json                            the truth of an alias: its last move
models/<name>/log/<alias>/<generation>.json                   every move, written once
models/<name>/approvals/<digest>/<generation>.json            every approval and revocation, written once
models/<name>/protection/<alias>/<generation>.json            whether the alias wants approved versions, written once
models/<name>/claims/<digest>/<push>.json                     a push that is under way
models/<name>/condemned/<digest>.json                         bytes that a collection is removing
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from serving.errors import RegistryError
from serving.spec.manifest import FileEntry, blob_key
from serving.spec.versions import is_semantic

MODELS = "models/"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)
_ALIAS = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)
"""63 characters, as SageMaker's names: every key that holds both is far below S3's limit, those of the log too."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PATH_SEGMENT = re.compile(r"(?!\.{1,2}$)[^/\\\x00-\x1f\x7f\ud800-\udfff]+")

_MAX_KEY_BYTES = 1024
"""S3 user guide, *Naming Amazon S3 objects*: a key is at most 1,024 bytes of UTF-8."""


def check_name(name: str) -> None:
    """Refuse what is no model name.

    Raises:
        RegistryError: with what is allowed.

    """
    if not _NAME.fullmatch(name):
        raise RegistryError(f"model: got {name!r}; allowed 63 lower-case letters, digits and _; correct the name")


def check_version(name: str, version: str) -> None:
    """Refuse what is no model name or no semantic version.

    Raises:
        RegistryError: with what is allowed.

    """
    check_name(name)
    if not is_semantic(version):
        raise RegistryError(f"{name}: version: got {version!r}; allowed X.Y.Z; correct it")


def check_alias(name: str, alias: str) -> None:
    """Refuse what is no model name or no alias.

    Raises:
        RegistryError: with what is allowed.

    """
    check_name(name)
    if not _ALIAS.fullmatch(alias):
        raise RegistryError(f"alias: got {alias!r}; allowed 63 lower-case letters, digits, - and _; rename it")


def check_digest(digest: str) -> None:
    """Refuse what is no lower-case hexadecimal SHA-256.

    Raises:
        RegistryError: with what is allowed.

    """
    if not _SHA256.fullmatch(digest):
        raise RegistryError(f"digest: got {digest!r}; allowed 64 lower-case hexadecimal digits; correct it")


def check_files(name: str, digest: str, files: Sequence[FileEntry]) -> None:
    """Refuse files that cannot be both S3 keys and paths below one folder.

    SageMaker refuses a prefix in which a file has the name of a folder (API_S3ModelDataSource).

    Raises:
        RegistryError: with every path that is wrong.

    """
    paths = {entry.path for entry in files}
    folders = {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/"}
    wrong = sorted(
        path for path in paths if not _safe(path) or len(file_key(name, digest, path).encode()) > _MAX_KEY_BYTES
    )
    wrong += sorted(paths & folders)
    if wrong or len(paths) < len(files) or not files:
        raise RegistryError(
            f"{name}: files: got {', '.join(map(repr, wrong)) or f'{len(files)} files of {len(paths)} names'}; allowed "
            f"different relative paths without '..', none of them another's folder, and keys of at most "
            f"{_MAX_KEY_BYTES} bytes; package it again"
        )


def archive_key(name: str, digest: str) -> str:
    """Give the key of an archive."""
    return blob_key(name, digest)


def blob_prefix(name: str, digest: str = "") -> str:
    """Give the prefix of one digest's bytes, or of all of a model's."""
    return f"{MODELS}{name}/blobs/sha256/{digest}/" if digest else f"{MODELS}{name}/blobs/sha256/"


def owner_of(key: str) -> tuple[str, str] | None:
    """Give name and digest of the bytes that a key belongs to; None where it belongs to none."""
    match key.split("/"):
        case ["models", name, "blobs", "sha256", digest, _, *_]:
            return name, digest
        case _:
            return None


def files_prefix(name: str, digest: str) -> str:
    """Give the prefix that SageMaker loads as a model of many files."""
    return f"{blob_prefix(name, digest)}files/"


def file_key(name: str, digest: str, path: str) -> str:
    """Give the key of one file of a prefix."""
    return f"{files_prefix(name, digest)}{path}"


def versions_prefix(name: str) -> str:
    """Give the prefix of a model's versions."""
    return f"{MODELS}{name}/versions/"


def version_key(name: str, version: str) -> str:
    """Give the key of a version's entry."""
    return f"{versions_prefix(name)}{version}.json"


def aliases_prefix(name: str) -> str:
    """Give the prefix of a model's aliases."""
    return f"{MODELS}{name}/aliases/"


def alias_key(name: str, alias: str) -> str:
    """Give the key of an alias."""
    return f"{aliases_prefix(name)}{alias}.json"


def log_prefix(name: str) -> str:
    """Give the prefix of all moves of a model's aliases."""
    return f"{MODELS}{name}/log/"


def log_key(name: str, alias: str, generation: int) -> str:
    """Give the key of one move; ten digits, so that keys sort as numbers do."""
    return f"{log_prefix(name)}{alias}/{generation:010d}.json"


def approvals_root(name: str) -> str:
    """Give the prefix of what was decided about a model's digests."""
    return f"{MODELS}{name}/approvals/"


def approvals_prefix(name: str, digest: str) -> str:
    """Give the prefix of what was decided about a digest."""
    return f"{approvals_root(name)}{digest}/"


def protection_prefix(name: str, alias: str) -> str:
    """Give the prefix of what was decided about an alias."""
    return f"{MODELS}{name}/protection/{alias}/"


def generation_key(prefix: str, generation: int) -> str:
    """Give the key of one entry of an append-only record."""
    return f"{prefix}{generation:010d}.json"


def claims_prefix(name: str, digest: str) -> str:
    """Give the prefix of a digest's pushes under way."""
    return f"{MODELS}{name}/claims/{digest}/"


def condemned_prefix(name: str) -> str:
    """Give the prefix of what collections are removing."""
    return f"{MODELS}{name}/condemned/"


def condemned_key(name: str, digest: str) -> str:
    """Give the key that says that a collection is removing a digest's bytes."""
    return f"{condemned_prefix(name)}{digest}.json"


def _safe(path: str) -> bool:
    return all(_PATH_SEGMENT.fullmatch(segment) for segment in path.split("/"))
