"""Where the directory of a zip archive stands: readers that look in different places see different contents."""

from __future__ import annotations

import io
import struct
from typing import IO

_END, _END_MAGIC = struct.Struct("<4s4H2LH"), b"PK\x05\x06"
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR, _LOCATOR_MAGIC = struct.Struct("<4sLQL"), b"PK\x06\x07"


def moved_directory(file: IO[bytes]) -> str:
    """Say how a zip's directory is elsewhere than its end says; "" where it stands right before it.

    Python's reader looks right before the end, PyTorch's (miniz) where the end points to: two directories, two contents
    (APPNOTE.TXT 4.3.14 to 4.3.16).
    """
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - _END.size))
    tail = file.read(_END.size)
    if len(tail) < _END.size or not tail.startswith(_END_MAGIC):
        return "bytes behind the zip's end"
    *_, size, offset, _ = _END.unpack(tail)
    at = end - _END.size
    if (found := _end_64(file, at)) is not None:
        at, size, offset = found
    file.seek(0)
    return "" if offset + size == at else f"a directory at byte {offset}, of {size} bytes, and its end at byte {at}"


def _end_64(file: IO[bytes], end: int) -> tuple[int, int, int] | None:
    """Give where the end of a large zip stands, and size and place of its directory; None without such an end."""
    file.seek(max(0, end - _LOCATOR.size))
    locator = file.read(_LOCATOR.size)
    if not locator.startswith(_LOCATOR_MAGIC):
        return None
    at = end - _LOCATOR.size - _END_64.size
    _, _, stated, _ = _LOCATOR.unpack(locator)
    if stated != at:
        return at, 0, -1
    file.seek(at)
    *_, size, offset = _END_64.unpack(file.read(_END_64.size))
    return at, size, offset
