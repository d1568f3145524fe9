"""The one writer of `model.tar.gz`: the same files give the same bytes, at any time, in any folder, at constant memory.

A plain tar (names sorted, no times, owners or modes of the machine) goes through libdeflate in pieces; each piece is a
gzip member of its own, which RFC 1952 §2.2 allows one after the other. Hashes are computed on the way.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

import deflate

from serving.errors import PackagingError
from serving.protocol.archive import MAX_BYTES, MAX_FILES
from serving.spec.manifest import FileEntry

Progress = Callable[[int, int], None]
"""Told the bytes that are done, and those there are."""

PIECE_BYTES = 4 << 20
LEVEL = 6
_READ_BYTES = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_MAX_PENDING_HASHES = 8


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


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


def write_archive(members: Iterable[Member], out: Path, *, progress: Progress | None = None) -> WrittenArchive:
    """Write `out` at once or not at all.

    Raises:
        PackagingError: a member is a link or no file, changes while it is read, or the archive breaks a limit.

    """
    chosen = _checked(members)
    total = sum(size for _, size in chosen)
    out.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            written = _write(chosen, file, total=total, progress=progress)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    return written


def _checked(members: Iterable[Member]) -> list[tuple[Member, int]]:
    chosen = sorted(((member, _size(member)) for member in members), key=lambda pair: pair[0].path)
    names = [member.path for member, _ in chosen]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PackagingError(f"archive: got {', '.join(twice)} twice; allowed each name once; rename one of them")
    for name in names:
        parts = name.split("/")
        if name.startswith("/") or "\\" in name or not name.isprintable() or {"", ".", ".."} & set(parts):
            raise PackagingError(f"archive: got the name {name!r}; allowed a path below the archive's top; rename it")
    size = sum(size for _, size in chosen)
    if len(chosen) > MAX_FILES or size > MAX_BYTES:
        raise PackagingError(
            f"archive: got {len(chosen)} files of {size} bytes; allowed {MAX_FILES} files and {MAX_BYTES} bytes; "
            f"leave out what the container does not read"
        )
    return chosen


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
    chosen: list[tuple[Member, int]], file: BinaryIO, *, total: int, progress: Progress | None
) -> WrittenArchive:
    done = 0
    entries: list[FileEntry] = []
    folders: set[str] = set()
    with _Pieces(file) as pieces:
        for member, size in chosen:
            for folder in _new_folders(member.path, folders):
                pieces.write(_header(folder, folder=True))
            pieces.write(_header(member.path, size=size))
            digest = hashlib.sha256()
            for chunk in _chunks(member, size):
                pieces.hash_later(digest, chunk)
                pieces.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
            pieces.write(bytes(-size % _BLOCK))
            pieces.settle()
            entries.append(FileEntry(path=member.path, size_bytes=size, sha256=digest.hexdigest()))
        pieces.finish()
        return WrittenArchive(sha256=pieces.digest.hexdigest(), size_bytes=pieces.size_bytes, files=tuple(entries))


def _new_folders(path: str, known: set[str]) -> Iterator[str]:
    parts = path.split("/")
    for depth in range(1, len(parts)):
        folder = "/".join(parts[:depth])
        if folder not in known:
            known.add(folder)
            yield folder


def _header(path: str, *, size: int = 0, folder: bool = False) -> bytes:
    """Give the header blocks: USTAR, with a PAX record only for what USTAR cannot say."""
    info = tarfile.TarInfo(path)
    info.size = size
    info.type = tarfile.DIRTYPE if folder else tarfile.REGTYPE
    info.mode = 0o755 if folder else 0o644
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def _chunks(member: Member, size: int) -> Iterator[bytes]:
    if isinstance(member.source, bytes):
        if size:
            yield member.source
        return
    left = size
    # a link put there since the look at it is refused by the system
    with os.fdopen(os.open(member.source, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as file:
        while left and (chunk := file.read(min(left, _READ_BYTES))):
            left -= len(chunk)
            yield chunk
        if left or file.read(1):
            raise PackagingError(f"{member.source}: got another size while reading; package it when nobody writes it")


class _Pieces:
    """Compresses a stream piece by piece; hashes run beside the compressor, at most a few pieces behind it."""

    def __init__(self, file: BinaryIO) -> None:
        self.digest = hashlib.sha256()
        self.size_bytes = 0
        self._file = file
        self._plain = bytearray()
        self._written = 0
        self._hasher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="archive-hash")
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._hasher.shutdown(cancel_futures=True)

    def hash_later(self, digest: _Hash, data: bytes) -> None:
        """Feed a hash in another thread, in order; wait when that thread is far behind."""
        while len(self._pending) >= _MAX_PENDING_HASHES:
            self._pending.popleft().result()
        self._pending.append(self._hasher.submit(digest.update, data))

    def settle(self) -> None:
        """Wait until every hash has seen all its data."""
        while self._pending:
            self._pending.popleft().result()

    def write(self, data: bytes) -> None:
        """Take plain bytes; whole pieces are compressed and written."""
        self._written += len(data)
        self._plain += data
        while len(self._plain) >= PIECE_BYTES:
            piece = bytes(memoryview(self._plain)[:PIECE_BYTES])
            del self._plain[:PIECE_BYTES]
            self._emit(piece)

    def finish(self) -> None:
        """End the tar as POSIX says (two empty blocks, whole records) and write what is left."""
        self.write(bytes(2 * _BLOCK))
        self.write(bytes(-self._written % tarfile.RECORDSIZE))
        if self._plain:
            self._emit(bytes(self._plain))
            self._plain.clear()
        self.settle()

    def _emit(self, piece: bytes) -> None:
        packed = bytes(deflate.gzip_compress(piece, LEVEL))
        self._file.write(packed)
        self.size_bytes += len(packed)
        self.hash_later(self.digest, packed)
