"""The ends of a stack's logs, and what is written to them from now on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from local.bounds import logs_of
from serving.errors import LocalStackError

_POLL_S = 0.2
_TAIL_BYTES = 256 << 10


def named_logs(state_dir: Path, name: str) -> list[Path]:
    """Give the logs of that name, all of the stack where it is empty.

    Raises:
        LocalStackError: there is no such log.

    """
    found = list(logs_of(state_dir))
    chosen = [log for log in found if name in {"", log.stem}]
    if not chosen:
        allowed = ", ".join(log.stem for log in found) or f"none: nothing was started in {state_dir}"
        raise LocalStackError(f"log: got {name or 'no name'}; allowed: {allowed}")
    return chosen


def last_lines(log: Path, *, count: int) -> list[str]:
    """Give the last lines of a log."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()[-count:] if count else []


def follow_lines(logs: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Give each whole line that is written from now on, until interrupted; a log that was cut begins anew."""
    return _followed({log: log.stat().st_size for log in logs})


def _followed(seen: dict[Path, int]) -> Iterator[tuple[Path, str]]:
    while True:
        for log, known in list(seen.items()):
            size = log.stat().st_size
            begin = known if size >= known else 0
            with log.open("rb") as file:
                file.seek(begin)
                text, newline, _ = file.read(size - begin).rpartition(b"\n")
            seen[log] = begin + len(text) + len(newline)
            for line in text.decode(errors="replace").splitlines():
                yield log, line
        time.sleep(_POLL_S)
