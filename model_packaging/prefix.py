"""A package without a tar: the files as they are, for an S3 prefix that SageMaker copies to the instance.

Large weights start sooner so (Amazon SageMaker guide, *Deploying uncompressed models*): nothing is unpacked.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from model_packaging.archive import Member, Progress, WrittenArchive
from serving.errors import PackagingError
from serving.protocol.archive_names import collisions, name_problems, shown
from serving.spec.manifest import FileEntry, tree_sha256

_READ_BYTES = 1 << 20


def write_prefix(members: Iterable[Member], out: Path, *, progress: Progress | None = None) -> WrittenArchive:
    """Write the folder `out` at once or not at all; one of an earlier run is replaced.

    Raises:
        PackagingError: a name or a file that an archive could not have either, all of them.

    """
    chosen = sorted(members, key=lambda member: member.path)
    if problems := list(_problems(chosen)):
        raise PackagingError("\n".join(problems))
    total = sum(_size(member) for member in chosen)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        inside = Path(temporary) / "new"
        inside.mkdir()
        done = 0
        entries = []
        for member in chosen:
            entries.append(_copy(member, inside / member.path))
            done += entries[-1].size_bytes
            if progress is not None:
                progress(done, total)
        if out.exists():
            out.rename(Path(temporary) / "old")
        inside.rename(out)
    return WrittenArchive(sha256=tree_sha256(entries), size_bytes=done, files=tuple(entries))


def _problems(members: list[Member]) -> Iterator[str]:
    names = [member.path for member in members]
    for name in names:
        yield from (f"prefix: {shown(name)}: got {problem}; rename it" for problem in name_problems(name))
    for first, second in collisions(names):
        yield f"prefix: got {shown(first)} and {shown(second)}; allowed names that differ everywhere; rename one"
    if len(set(names)) != len(names):
        yield "prefix: got a name twice; allowed each name once; rename one of them"
    for member in members:
        if isinstance(member.source, Path) and not _plain(member.source):
            yield f"{member.source}: got no plain file; allowed plain files; copy it in place, a folder with `cp -rL`"


def _plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _size(member: Member) -> int:
    return len(member.source) if isinstance(member.source, bytes) else member.source.stat().st_size


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
