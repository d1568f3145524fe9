"""Lists of small whole numbers, as JSON writes pixels, without an object for each of them."""

from __future__ import annotations

import numpy as np

_ZERO, _COMMA = b"0,"
_MOST = np.iinfo(np.uint8).max
_MOST_DIGITS = 3


def octets(text: bytes, *, size: int) -> bytes | None:
    """Give the `size` numbers (at least one) from 0 to 255 of a JSON list without blanks, a byte each.

    None: it is no such list, or another text for one; a JSON parser knows.
    """
    if text[:1] != b"[" or text[-1:] != b"]":
        return None
    characters = np.frombuffer(text, np.uint8)
    digits = characters - np.uint8(_ZERO)
    others = digits > 9  # noqa: PLR2004 - what is no digit, since there is nothing below zero
    marks = np.flatnonzero(others)
    if len(marks) != size + 1 or np.count_nonzero(characters == _COMMA) != size - 1:
        return None
    digits *= ~others
    ends = marks[1:]
    lengths = ends - marks[:-1] - 1
    if lengths.max() > _MOST_DIGITS:
        return None
    lengths = lengths.astype(np.uint8)
    numbers = digits.take(ends - 1).astype(np.uint16)
    numbers += np.uint16(10) * digits.take(ends - 2)
    numbers += np.uint16(100) * ((lengths > 2) * digits.take(ends - 3))  # noqa: PLR2004
    # as many digits as JSON writes: none is missing, and none is a zero in front (RFC 8259 §6)
    written = np.uint8(1) + (numbers >= 10).view(np.uint8) + (numbers >= 100).view(np.uint8)  # noqa: PLR2004
    if (lengths != written).any() or numbers.max() > _MOST:
        return None
    return numbers.astype(np.uint8).tobytes()
