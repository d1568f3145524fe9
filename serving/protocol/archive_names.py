"""Which names an archive may have: rules for its writer and its reader alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

MAX_PART_BYTES = 200
"""Of one folder's or file's name; file systems allow 255, of which tools take some for their own endings."""

MAX_PATH_BYTES = 1024
"""S3's limit of a key (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html), as for a prefix."""

_SHOWN = 120


def name_problems(name: str) -> Iterator[str]:
    """Give everything that is wrong with one member's name, each in a few words."""
    parts = name.split("/")
    if name.startswith("/"):
        yield "an absolute path"
    if ".." in parts:
        yield "a parent path"
    if not _utf8(name):
        yield "a name that is not UTF-8"
    elif not name.isprintable():
        yield "a name with control characters"
    if "\\" in name:
        yield "a name with a backslash"
    encoded = [len(part.encode(errors="surrogatepass")) for part in parts]
    if max(encoded) > MAX_PART_BYTES or sum(encoded) + len(parts) - 1 > MAX_PATH_BYTES:
        yield f"a name that is too long (allowed {MAX_PART_BYTES} bytes a part, {MAX_PATH_BYTES} in all)"


class Distinct:
    """Paths that no file system keeps as one: case and Unicode normalisation do not tell names apart everywhere."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def other(self, path: str) -> str | None:
        """Take a path with its folders; give the first path seen that is another one and would be kept as the same."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            part = "/".join(parts[:depth])
            first = self._first.setdefault(_folded(part), part)
            if first != part:
                return first
        return None


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def shown(name: str) -> str:
    """Give a name as a message may hold it: escaped, and not without end."""
    text = ascii(name) if not name.isprintable() else repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…' ({len(name)} characters)"


def _utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
