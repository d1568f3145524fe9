"""What /proc says of a server and all it started: CPU time, memory; and how the two cores are shared out (Linux)."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SERVER_CORE, CLIENT_CORE = 0, 1

_PROC = Path("/proc")
_GONE = (FileNotFoundError, ProcessLookupError)


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Run what is started inside on one core; where there is no such core, anywhere."""
    before = os.sched_getaffinity(0)
    cores = sorted(before)
    os.sched_setaffinity(0, {cores[core % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin(pids: Iterable[int], core: int) -> None:
    """Move processes that run, each thread of them, to one core."""
    cores = sorted(os.sched_getaffinity(0))
    for pid in pids:
        with suppress(*_GONE):
            for task in (_PROC / str(pid) / "task").iterdir():
                with suppress(*_GONE):
                    os.sched_setaffinity(int(task.name), {cores[core % len(cores)]})


def tree(root_pid: int) -> list[int]:
    """Give a process, its descendants and whoever is left of its session, as far as they are alive."""
    children, members, alive = defaultdict(list), [], set()
    for path in _PROC.iterdir():
        if path.name.isdigit():
            with suppress(*_GONE):
                # the name, in brackets, may hold blanks and brackets (proc(5))
                _, parent, _, session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
                alive.add(int(path.name))
                children[int(parent)].append(int(path.name))
                if int(session) == root_pid:
                    members.append(int(path.name))
    found, waiting = set(members), [root_pid]
    while waiting:
        pid = waiting.pop()
        found.add(pid)
        waiting += children[pid]
    return sorted(found & alive)


def cpu_s(root_pid: int) -> float:
    """Give the seconds of CPU that the threads alive in a process tree have had, from `schedstat`, exact to the ns."""
    total_ns = 0
    for pid in tree(root_pid):
        with suppress(*_GONE):
            for task in (_PROC / str(pid) / "task").iterdir():
                with suppress(*_GONE):
                    total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns / 1e9


def pss_bytes(root_pid: int) -> int:
    """Give the memory of a process tree, pages shared with others counted in shares (PSS)."""
    total_kb = 0
    for pid in tree(root_pid):
        with suppress(*_GONE):
            lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
            total_kb += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total_kb << 10


def send_signal(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to those of the processes that are alive."""
    for pid in pids:
        with suppress(*_GONE):
            os.kill(pid, number)


def hardware() -> dict[str, object]:
    """Give what the numbers depend on most: the processor's name and the memory in GiB."""
    names = [line.partition(":")[2].strip() for line in _lines("cpuinfo") if line.startswith("model name")]
    memory_kb = next(int(line.split()[1]) for line in _lines("meminfo") if line.startswith("MemTotal:"))
    return {"processor": names[0] if names else "unknown", "memory_gib": round(memory_kb / 2**20)}


def _lines(name: str) -> list[str]:
    return (_PROC / name).read_text().splitlines()
