"""A local file as S3 will check it: its size, its own SHA-256 and that of each part it is sent in."""

from __future__ import annotations

import errno
import hashlib
import io
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from serving.aws.registry.store import base64_of
from serving.errors import RegistryError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MIB = 1 << 20
_READ_BYTES = 4 * MIB

MAX_PARTS = 10_000
"""S3 user guide, *Amazon S3 multipart upload limits*."""

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """How bytes travel. Parts of at least 5 MiB (S3's least), at most 10,000 of them; `parallel` at a time.

    Parts are streamed from the file, so memory does not grow with any of the three.
    """

    single_put_bytes: int = 16 * MIB
    part_bytes: int = 16 * MIB
    parallel: int = 8

    def part_size(self, size_bytes: int) -> int:
        """Give the size of all parts but the last; it follows from the file alone, so that a resume cuts alike."""
        least = math.ceil(size_bytes / MAX_PARTS)
        return self.part_bytes if least <= self.part_bytes else math.ceil(least / MIB) * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a file; `sha256` is raw, and `number` counts from 1 as S3 does."""

    number: int
    start: int
    size_bytes: int
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a file holds; no parts where one request carries it. `sha256` is lower-case hex, of the whole."""

    path: Path
    size_bytes: int
    sha256: str
    parts: tuple[Part, ...]

    @property
    def checksum(self) -> str:
        """The SHA-256 that S3 keeps of it, in base64: of the whole, or of the parts' digests with their number.

        S3 has no full-object SHA-256 for multipart uploads (S3 user guide, *Checking object integrity*).
        """
        if not self.parts:
            return base64_of(bytes.fromhex(self.sha256))
        whole = hashlib.sha256(b"".join(part.sha256 for part in self.parts)).digest()
        return f"{base64_of(whole)}-{len(self.parts)}"


def read_content(path: Path, transfer: Transfer) -> Content:
    """Read a file once, at constant memory, for its digest and those of its parts.

    Raises:
        RegistryError: it cannot be read.

    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if size <= transfer.single_put_bytes:
                return Content(
                    path=path, size_bytes=size, sha256=hashlib.file_digest(file, "sha256").hexdigest(), parts=()
                )
            return _cut(path, file, size, transfer.part_size(size))
    except OSError as error:
        raise RegistryError(f"{path}: got no readable file ({error.strerror}); check the path") from None


def _cut(path: Path, file: io.BufferedReader, size: int, part_bytes: int) -> Content:
    """Hash whole and parts from one reading: read apart, a file that changes could pass as both.

    The two hashes of a chunk run side by side; hashlib lets go of the interpreter.
    """
    whole = hashlib.sha256()
    parts: list[Part] = []
    with ThreadPoolExecutor(1, thread_name_prefix="whole") as beside:
        for start in range(0, size, part_bytes):
            digest, left = hashlib.sha256(), min(part_bytes, size - start)
            length = left
            while left and (chunk := file.read(min(_READ_BYTES, left))):
                pending = beside.submit(whole.update, chunk)
                digest.update(chunk)
                pending.result()
                left -= len(chunk)
            parts.append(Part(number=len(parts) + 1, start=start, size_bytes=length, sha256=digest.digest()))
    return Content(path=path, size_bytes=size, sha256=whole.hexdigest(), parts=tuple(parts))


def open_slice(path: Path, start: int, size_bytes: int) -> io.BufferedReader:
    """Open a stretch of a file as a body that botocore can read, measure and rewind for a retry."""
    return io.BufferedReader(_Slice(path, start, size_bytes), buffer_size=_READ_BYTES)


class _Slice(io.RawIOBase):
    def __init__(self, path: Path, start: int, size_bytes: int) -> None:
        super().__init__()
        self._path = path
        self._file = path.open("rb", buffering=0)
        self._start, self._size, self._at = start, size_bytes, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move within the stretch."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = min(max(base + offset, 0), self._size)
        return self._at

    def tell(self) -> int:
        """Give the place within the stretch."""
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read on, never beyond the stretch."""
        view = memoryview(buffer)[: self._size - self._at]
        self._file.seek(self._start + self._at)
        count = self._file.readinto(view) or 0
        if not count and len(view):  # a body that ends early would leave S3 waiting for the rest
            raise OSError(errno.EIO, "the file became shorter while it was sent", str(self._path))
        self._at += count
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
