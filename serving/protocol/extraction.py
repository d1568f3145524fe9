"""Unpacks a `tar.gz` that nobody vouches for: plain files below one folder, at constant memory, every fault told."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from serving.errors import ArchiveError
from serving.protocol.archive_names import Distinct, name_problems, shown

MAX_FILES = 4096
MAX_BYTES = 64 << 30
"""Unpacked bytes of one archive; a larger model belongs in an uncompressed S3 prefix."""

MAX_EXPANSION = 100
ALWAYS_EXPANDS_BYTES = 64 << 20
"""An archive may unpack to this much, and beyond it to `MAX_EXPANSION` times its own size: weights shrink to a half,
text to a tenth, and DEFLATE at most to a thousandth (https://zlib.net/zlib_tech.html), which only a bomb does."""

_MAX_HEADER_BYTES = 1 << 20
_BLOCK = 1 << 16
_CHUNK = 1 << 20
_END_BYTES = 2 * tarfile.BLOCKSIZE
"""POSIX ends a tar with two blocks of zeros; without them it was cut off."""

_KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.CHRTYPE: "a character device",
    tarfile.BLKTYPE: "a block device",
    tarfile.FIFOTYPE: "a named pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}
_PLAIN = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE})


@dataclass(frozen=True, slots=True)
class Extraction:
    """What is wrong with an archive, one line each; `whole`: it was read to its end, so that the rest can be tried."""

    findings: tuple[str, ...]
    whole: bool


def expansion_limit_bytes(archive_bytes: int) -> int:
    """To how many bytes an archive of that size may unpack."""
    return max(ALWAYS_EXPANDS_BYTES, MAX_EXPANSION * archive_bytes)


def extract(archive: Path, into: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> Extraction:
    """Unpack what is safe into an empty folder; give everything that is wrong, one line each.

    A member that is refused is skipped and the next one looked at; bytes that are no tar.gz, or too many of them, end
    it. The caller throws the folder away when there is any finding.

    Raises:
        ArchiveError: there is no such file.

    """
    try:
        size = archive.stat().st_size
    except OSError:
        raise ArchiveError(f"{archive}: got no such file; allowed a model.tar.gz; check the path") from None
    whole = False
    unpacking = _Unpacking(archive.name, into, max_files=max_files, max_bytes=max_bytes, archive_bytes=size)
    try:
        with gzip.open(archive, "rb") as plain:
            unpacking.run(_Metered(plain))
        whole = True
    except _RefusedError as refused:
        unpacking.findings.append(f"{archive.name}: {refused}")
    except (gzip.BadGzipFile, tarfile.TarError, EOFError, zlib.error, ValueError, OverflowError) as error:
        unpacking.findings.append(
            f"{archive.name}: got bytes that are no whole tar.gz ({_damage(error, archive)}); "
            f"allowed what `streamhub package` writes; fetch or package it again"
        )
    return Extraction(tuple(unpacking.findings), whole)


class _RefusedError(Exception):
    """What ends the reading of an archive; its text is the rest of the finding."""


class _Metered(io.BufferedIOBase):
    """The unpacked bytes, of which only `left` may be read: neither a header nor the padding can grow without end."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self.left = _MAX_HEADER_BYTES
        self.position = 0
        self.content_end = 0
        """Where the last byte stands that is not zero."""
        self._stream = stream

    def read(self, size: int | None = -1, /) -> bytes:
        """Give at most `size` bytes."""
        wanted = self.left + 1 if size is None or size < 0 else min(size, self.left + 1)
        # one byte beyond what is allowed tells the end of the stream from a stream that goes on
        data = self._stream.read(wanted)
        self.left -= len(data)
        if self.left < 0:
            raise _RefusedError(
                f"got more than {_MAX_HEADER_BYTES} bytes that belong to no file; "
                f"allowed plain headers and padding; package it with `streamhub package`"
            )
        if content := len(data.rstrip(b"\0")):
            self.content_end = self.position + content
        self.position += len(data)
        return data


class _Unpacking:
    """One walk over the members; `findings` grow on the way."""

    def __init__(self, name: str, into: Path, *, max_files: int, max_bytes: int, archive_bytes: int) -> None:
        self.findings: list[str] = []
        self._name = name
        self._into = into
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._archive_bytes = archive_bytes
        self._distinct = Distinct()

    def run(self, plain: _Metered) -> None:
        """Read all there is, to the end, where gzip checks its CRC."""
        with tarfile.open(fileobj=plain, mode="r|", bufsize=_BLOCK) as tar:
            count, total = 0, 0
            while (member := _next(tar, plain)) is not None:
                count, total = count + 1, total + max(0, member.size)
                self._check_limits(member, count=count, total=total)
                plain.left = member.size + _BLOCK
                self._take(tar, member)
            end = tar.offset
        plain.left = _MAX_HEADER_BYTES
        while plain.read(_CHUNK):
            pass
        if plain.content_end > end:
            raise _RefusedError(
                "got bytes behind the end of the tar, which some readers take for members; "
                "allowed zeros; package it again"
            )
        if plain.position < end + _END_BYTES:
            raise tarfile.ReadError("truncated tar: its end is missing")

    def _check_limits(self, member: tarfile.TarInfo, *, count: int, total: int) -> None:
        at = f"at {shown(member.name)}"
        if count > self._max_files or total > self._max_bytes or member.size < 0:
            raise _RefusedError(
                f"got more than its limits {at}; allowed {self._max_files} files and {self._max_bytes} bytes unpacked; "
                f"leave out what the container does not read"
            )
        if total > expansion_limit_bytes(self._archive_bytes):
            raise _RefusedError(
                f"got a bomb {at}: {total} bytes or more from {self._archive_bytes}; allowed "
                f"{MAX_EXPANSION} times its size; package other data"
            )
        if member.size > (free := shutil.disk_usage(self._into).free):
            raise _RefusedError(f"got {member.size} bytes to unpack {at}; allowed the {free} that are free; make room")

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = "/".join(part for part in member.name.split("/") if part not in {"", "."})
        if problems := [*self._problems(member, path)]:
            self.findings.append(
                f"{self._name}: got member {shown(member.name)}: {' and '.join(problems)}; "
                f"allowed plain files and folders below the archive's top, each name once; package it again without it"
            )
            return
        target = self._into / path
        try:
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            if source is not None:
                with target.open("xb") as out:
                    shutil.copyfileobj(source, out, _CHUNK)
        except (FileExistsError, NotADirectoryError):
            self.findings.append(
                f"{self._name}: got member {shown(member.name)}: twice, or below a file; "
                f"allowed each name once; package it again"
            )

    def _problems(self, member: tarfile.TarInfo, path: str) -> Iterator[str]:
        if member.type not in _PLAIN or member.issparse():
            kind = _KINDS.get(member.type, "a sparse file" if member.issparse() else f"of type {member.type!r}")
            yield f"{kind} to {shown(member.linkname)}" if member.linkname else kind
        yield from name_problems(member.name)
        if (other := self._distinct.other(path)) is not None:
            yield f"differs from {shown(other)} only in case or Unicode normalisation"


def _next(tar: tarfile.TarFile, plain: _Metered) -> tarfile.TarInfo | None:
    plain.left = _MAX_HEADER_BYTES
    return tar.next()


def _damage(error: Exception, archive: Path) -> str:
    """Say in a few words how the bytes of an archive are broken."""
    with archive.open("rb") as file:
        head = file.read(tarfile.BLOCKSIZE)
    if not head:
        return "an empty file"
    if not head.startswith(b"\x1f\x8b"):
        return "a tar that is not compressed" if head[257:262] == b"ustar" else "no gzip"
    if isinstance(error, EOFError):
        return "truncated gzip"
    if isinstance(error, gzip.BadGzipFile):
        return "bytes behind the gzip" if "Not a gzipped file" in str(error) else f"corrupt gzip: {error}"
    if isinstance(error, zlib.error):
        return f"corrupt gzip: {error}"
    text = str(error)
    return "truncated tar" if "unexpected end" in text else text if "truncated" in text else f"no tar: {error}"
