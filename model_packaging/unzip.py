"""Unpacks a zip archive that nobody vouches for: plain files below one folder, at constant memory, every fault told."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from serving.errors import PackagingError
from serving.protocol.archive_names import Distinct, name_problems, shown
from serving.protocol.extraction import MAX_BYTES, MAX_EXPANSION, MAX_FILES, expansion_limit_bytes

_ENCRYPTED = 0x1
_CHUNK = 1 << 20


def unzip(archive: Path, into: Path) -> None:
    """Unpack every file of `archive` below the empty folder `into`.

    Raises:
        PackagingError: with one line for every member that may not be unpacked, or for bytes that are no whole zip;
            `into` may then hold a part of it.

    """
    try:
        with zipfile.ZipFile(archive) as zipped:
            members = zipped.infolist()
            if problems := [*_problems(members, archive_bytes=archive.stat().st_size, into=into)]:
                raise PackagingError("\n".join(f"{archive.name}: {problem}" for problem in problems))
            for member in members:
                if not member.is_dir():
                    _write(zipped, member, into / member.filename)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, ValueError) as error:
        raise PackagingError(
            f"{archive.name}: got bytes that are no whole zip archive ({error}); allowed what torch-model-archiver "
            f"writes; make it again"
        ) from None


def _problems(members: list[zipfile.ZipInfo], *, archive_bytes: int, into: Path) -> Iterator[str]:
    total = sum(member.file_size for member in members)
    limit = min(MAX_BYTES, expansion_limit_bytes(archive_bytes))
    if len(members) > MAX_FILES or total > limit:
        yield (
            f"got {len(members)} members of {total} bytes from {archive_bytes}; allowed {MAX_FILES} members and "
            f"{limit} bytes ({MAX_EXPANSION} times its size is a bomb); leave out what the server does not read"
        )
    elif total > (free := shutil.disk_usage(into).free):
        yield f"got {total} bytes to unpack; allowed the {free} that are free; make room"
    distinct, files = Distinct(), set[str]()
    for member in members:
        if found := [*_member_problems(member, distinct, files)]:
            yield (
                f"got member {shown(member.filename)}: {' and '.join(found)}; "
                f"allowed plain files below the archive's top, each name once; make it again without it"
            )


def _member_problems(member: zipfile.ZipInfo, distinct: Distinct, files: set[str]) -> Iterator[str]:
    name = member.filename.removesuffix("/")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        yield "a symbolic link" if kind == stat.S_IFLNK else "a special file"
    if member.flag_bits & _ENCRYPTED:
        yield "an encrypted file"
    yield from name_problems(name)
    if not name.startswith("/") and {"", "."} & set(name.split("/")):
        yield "an empty part or a dot"
    if (other := distinct.other(name)) is not None:
        yield f"differs from {shown(other)} only in case or Unicode normalisation"
    if not member.is_dir():
        parents = {name[:index] for index, letter in enumerate(name) if letter == "/"}
        if name in files or parents & files:
            yield "twice, or below a file"
        files.add(name)


def _write(zipped: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipped.open(member) as source, target.open("xb") as out:
        shutil.copyfileobj(source, out, _CHUNK)
