"""What a `requirements.txt` may say: releases by name, so that what is installed is what was reviewed."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PINNED = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?==[^\s*;]+(\s|;|$)")
_HASHED = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")


def requirement_problems(text: str, name: str, *, hashed: bool) -> Iterator[str]:
    """Give a line for every requirement that is no pinned release; with `hashed` each also names its digests."""
    form, flag = ("name==version --hash=sha256:…", " --generate-hashes") if hashed else ("name==version", "")
    lines = re.sub(r"\\\s*\n", " ", text).splitlines()
    for line in (raw.split(" #")[0].strip() for raw in lines):
        if not line or line.startswith("#"):
            continue
        if line.startswith("-") or not _PINNED.match(line) or (hashed and not _HASHED.search(line)):
            yield (
                f"{name}: got {line[:60]!r}; allowed {form}; "
                f"write it with `uv pip compile{flag}`, or leave the list out"
            )
