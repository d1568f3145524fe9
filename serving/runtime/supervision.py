"""When a process that ended is started again, and when that is given up: pure decisions of the one who watches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_FIRST_S = 0.1
_LONGEST_S = 30.0
_FORGOTTEN_S = 60.0
_MOST_FALSE_STARTS = 5


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a process: when, and whether it had served before."""

    at_s: float
    served: bool


def restart_in_s(deaths: Sequence[Death]) -> float | None:
    """Give the pause before a process is started after the last of its `deaths`; None: it will not get well by itself.

    The pause doubles with every death of the last minute. A process that dies five times in a row before it ever served
    (a broken model, no memory) would do so for ever.
    """
    last = deaths[-1].at_s
    tail = deaths[-_MOST_FALSE_STARTS:]
    if len(tail) == _MOST_FALSE_STARTS and not any(death.served for death in tail):
        return None
    recent = sum(last - death.at_s < _FORGOTTEN_S for death in deaths)
    return float(min(_LONGEST_S, _FIRST_S * 2 ** (min(recent, 20) - 1)))


def check_processes(asked: int, *, cores: int) -> str | None:
    """Say what is wrong with a number of processes on so many cores; None: nothing."""
    if 1 <= asked <= cores:
        return None
    return (
        f"processes: got {asked}; allowed 1 to {cores}, the cores that this process may use; "
        f"more would take turns; choose fewer or allow more cores"
    )


def check_memory(asked: int, *, each_bytes: int, limit_bytes: int) -> str | None:
    """Say what is wrong with processes of so much memory below a limit; None: they fit."""
    if asked * each_bytes <= limit_bytes:
        return None
    return (
        f"processes: got {asked} of {each_bytes >> 20} MiB each; allowed {limit_bytes >> 20} MiB for all together, "
        f"this process's limit; choose {max(1, limit_bytes // each_bytes)}"
    )
