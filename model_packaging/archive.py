"""The one writer of `model.tar.gz`: the same files give the same bytes on any day and machine, at constant memory.

A plain tar (names sorted, no times, owners or modes of the machine) goes through libdeflate in pieces; each piece is a
gzip member of its own, which RFC 1952 §2.2 allows one after the other. Pieces are cut by size alone, so that neither
the number of cores nor their speed leaves a trace. Hashes are computed on the way.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import version as installed
from pathlib import Path
from typing import Protocol

from model_packaging.pieces import LEVEL, PIECE_BYTES, Pieces
from serving.errors import PackagingError
from serving.protocol.archive_names import Distinct, name_problems, shown
from serving.protocol.extraction import MAX_BYTES, MAX_FILES, expansion_limit_bytes
from serving.spec.manifest import FileEntry

Progress = Callable[[int, int], None]
"""Told the bytes that are done, and those there are."""

_READ_BYTES = 1 << 20
_BLOCK = tarfile.BLOCKSIZE


class Hash(Protocol):
    """A digest that grows."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take more bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive: its POSIX path there, and its bytes or the file that holds them."""

    path: str
    source: Path | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenArchive:
    """What was written: the SHA-256 of the archive's bytes, their number, and every file in it by name."""

    sha256: str
    size_bytes: int
    files: tuple[FileEntry, ...]


def compressor() -> dict[str, str]:
    """Say what an archive's bytes depend on beside its files, for the manifest's toolchain."""
    return {"deflate": installed("deflate"), "gzip": f"level {LEVEL}, pieces of {PIECE_BYTES >> 20} MiB"}


def write_archive(members: Iterable[Member], out: Path, *, progress: Progress | None = None) -> WrittenArchive:
    """Write `out` at once or not at all.

    Raises:
        PackagingError: a member is a link or no file, changes while it is read, or the archive breaks a limit.

    """
    chosen = checked(members)
    total = sum(size for _, size in chosen)
    out.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file, Pieces(file) as pieces:
            entries = _write(chosen, pieces, total=total, progress=progress)
            file.flush()
            os.fsync(file.fileno())
        if total > (limit := expansion_limit_bytes(pieces.size_bytes)):
            raise PackagingError(
                f"archive: got {total} bytes that shrink to {pieces.size_bytes}; allowed {limit} from so few: a reader "
                f"takes it for a bomb; leave out files of zeros"
            )
        temporary.chmod(0o644)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    return WrittenArchive(sha256=pieces.sha256, size_bytes=pieces.size_bytes, files=entries)


def checked(members: Iterable[Member]) -> list[tuple[Member, int]]:
    """Give members by name, each with its size in bytes.

    Raises:
        PackagingError: with one line for every name, file and limit that no archive may have.

    """
    chosen = sorted(members, key=lambda member: member.path)
    problems = [*_name_findings([member.path for member in chosen])]
    sized: list[tuple[Member, int]] = []
    for member in chosen:
        try:
            sized.append((member, _size(member)))
        except PackagingError as error:
            problems.append(str(error))
    size = sum(size for _, size in sized)
    if len(chosen) > MAX_FILES or size > MAX_BYTES:
        problems.append(
            f"archive: got {len(chosen)} files of {size} bytes; allowed {MAX_FILES} files and {MAX_BYTES} bytes; "
            f"leave out what the container does not read"
        )
    if problems:
        raise PackagingError("\n".join(problems))
    return sized


def _name_findings(names: list[str]) -> Iterator[str]:
    files: set[str] = set()
    distinct = Distinct()
    for name in names:
        parts = name.split("/")
        problems = [*name_problems(name)]
        if not name.startswith("/") and {"", "."} & set(parts):
            problems.append("an empty part or a dot")
        if problems:
            yield (
                f"archive: got the name {shown(name)}: {' and '.join(problems)}; "
                f"allowed a path below the archive's top; rename it"
            )
        if name in files:
            yield f"archive: got {shown(name)} twice; allowed each name once; rename one of them"
        if parent := next((path for path in _folders(name) if path in files), None):
            yield f"archive: got {shown(name)} below the file {shown(parent)}; allowed a folder there; rename one"
        if (other := distinct.other(name)) is not None:
            yield (
                f"archive: got {shown(name)} and {shown(other)}, which differ only in case or Unicode normalisation; "
                f"allowed names that every file system tells apart; rename one of them"
            )
        files.add(name)


def _folders(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))


def _size(member: Member) -> int:
    if isinstance(member.source, bytes):
        return len(member.source)
    try:
        found = member.source.lstat()
    except OSError as error:
        raise PackagingError(f"{member.source}: got no readable file ({error.strerror}); check the path") from None
    if not stat.S_ISREG(found.st_mode):
        raise PackagingError(
            f"{member.source}: got a link or special file; allowed plain files (SageMaker unpacks no links); "
            f"copy it in place, for a folder with `cp -rL`"
        )
    return found.st_size


def _write(
    chosen: list[tuple[Member, int]], pieces: Pieces, *, total: int, progress: Progress | None
) -> tuple[FileEntry, ...]:
    done = 0
    entries: list[FileEntry] = []
    folders: set[str] = set()
    for member, size in chosen:
        for folder in _folders(member.path):
            if folder not in folders:
                folders.add(folder)
                pieces.write(_header(folder, folder=True))
        pieces.write(_header(member.path, size=size))
        digest = hashlib.sha256()
        for count in _copied(member, size, pieces, digest):
            done += count
            if progress is not None:
                progress(done, total)
        pieces.write(bytes(-size % _BLOCK))
        entries.append(FileEntry(path=member.path, size_bytes=size, sha256=digest.hexdigest()))
    # a tar ends as POSIX says: two empty blocks, whole records
    pieces.write(bytes(2 * _BLOCK))
    pieces.write(bytes(-pieces.plain_bytes % tarfile.RECORDSIZE))
    pieces.finish()
    return tuple(entries)


def _header(path: str, *, size: int = 0, folder: bool = False) -> bytes:
    """Give the header blocks: USTAR, with a PAX record only for what USTAR cannot say."""
    info = tarfile.TarInfo(path)
    info.size = size
    info.type = tarfile.DIRTYPE if folder else tarfile.REGTYPE
    info.mode = 0o755 if folder else 0o644
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def _copied(member: Member, size: int, pieces: Pieces, digest: Hash) -> Iterator[int]:
    """Read a member straight into the pieces, and give the bytes of each step."""
    if isinstance(member.source, bytes):
        digest.update(member.source)
        pieces.write(member.source)
        yield size
        return
    left = size
    # a link put there since the look at it is refused by the system
    with os.fdopen(os.open(member.source, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as file:
        while left:
            view = pieces.room()[: min(left, _READ_BYTES)]
            if not (count := file.readinto(view) or 0):
                break
            digest.update(view[:count])
            pieces.filled(count)
            left -= count
            yield count
        if left or file.read(1):
            raise PackagingError(f"{member.source}: got another size while reading; package it when nobody writes it")
