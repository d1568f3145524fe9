"""Lists of small whole numbers, as JSON writes pixels, without an object for each of them."""

from __future__ import annotations

import numpy as np

_ZERO, _COMMA, _OPEN, _CLOSE = b"0,[]"
_MOST_DIGITS = 3
_LEAST = np.array([0, 0, 10, 100], dtype=np.uint16)
"""The least number of so many digits: one with fewer would begin with a zero, which JSON forbids (RFC 8259 §6)."""


def octets(text: bytes, *, size: int) -> bytes | None:
    """Give the `size` numbers (at least one) from 0 to 255 of a JSON list without blanks, a byte each.

    None: it is no such list, or another text for one; a JSON parser knows.
    """
    characters = np.frombuffer(text, np.uint8)
    digits = characters - np.uint8(_ZERO)  # what is no digit becomes 10 or more
    marks = np.flatnonzero(digits > 9)  # noqa: PLR2004
    if len(marks) != size + 1 or marks[0] != 0 or marks[-1] != len(text) - 1:
        return None
    if text[0] != _OPEN or text[-1] != _CLOSE or (characters[marks[1:-1]] != _COMMA).any():
        return None
    ends = marks[1:]
    lengths = ends - marks[:-1] - 1
    if lengths.min() < 1 or lengths.max() > _MOST_DIGITS:
        return None
    numbers = digits[ends - 1].astype(np.uint16)
    numbers += (lengths > 1) * np.uint16(10) * digits[ends - 2]
    numbers += (lengths > 2) * np.uint16(100) * digits[ends - 3]  # noqa: PLR2004
    if (numbers < _LEAST[lengths]).any() or numbers.max() > np.iinfo(np.uint8).max:
        return None
    return numbers.astype(np.uint8).tobytes()
