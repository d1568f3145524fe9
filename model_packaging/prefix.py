"""A package without a tar: the files as they are, for an S3 prefix that SageMaker copies to the instance.

Large weights start sooner so (Amazon SageMaker guide, *Deploying uncompressed models*): nothing is unpacked.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from model_packaging.archive import Member, Progress, WrittenArchive, checked
from serving.spec.manifest import FileEntry, tree_sha256

_READ_BYTES = 1 << 20


def write_prefix(members: Iterable[Member], out: Path, *, progress: Progress | None = None) -> WrittenArchive:
    """Write the folder `out` at once or not at all; one of an earlier run is replaced.

    Raises:
        PackagingError: with one line for every name and file that no archive may have either.

    """
    chosen = checked(members)
    total = sum(size for _, size in chosen)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        inside = Path(temporary) / "new"
        inside.mkdir()
        done = 0
        entries = []
        for member, _ in chosen:
            entries.append(_copy(member, inside / member.path))
            done += entries[-1].size_bytes
            if progress is not None:
                progress(done, total)
        if out.exists():
            out.rename(Path(temporary) / "old")
        inside.rename(out)
    return WrittenArchive(sha256=tree_sha256(entries), size_bytes=done, files=tuple(entries))


def _copy(member: Member, target: Path) -> FileEntry:
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with target.open("xb") as out:
        for chunk in _chunks(member):
            digest.update(chunk)
            out.write(chunk)
    target.chmod(0o644)
    return FileEntry(path=member.path, size_bytes=target.stat().st_size, sha256=digest.hexdigest())


def _chunks(member: Member) -> Iterator[bytes]:
    if isinstance(member.source, bytes):
        yield member.source
        return
    # a link put there since the look at it is refused by the system
    with os.fdopen(os.open(member.source, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as file:
        while chunk := file.read(_READ_BYTES):
            yield chunk
