"""What this process may use: cores and memory, by its affinity, its control group (version 1 or 2) and the machine.

A container sees the machine's cores and memory in /proc; what it gets is in /sys/fs/cgroup (kernel documentation,
`admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`, `scheduler/sched-bwc.rst`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def usable_cores(*, root: Path = ROOT, affinity: int | None = None) -> int:
    """Give the whole cores that this process may use at once; at least 1.

    Of 1.5 cores that is 1: two threads would be stopped for the rest of every period, which the slowest requests see.
    """
    allowed = affinity if affinity is not None else len(os.sched_getaffinity(0))
    return max(1, min([allowed, *(int(cores) for cores in _quotas(root))]))


def memory_limit_bytes(*, root: Path = ROOT, installed: int | None = None) -> int:
    """Give the bytes of memory that this process may have before the kernel ends it."""
    machine = installed if installed is not None else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_memory_limits(root)])


def free_bytes() -> int:
    """Give what this process may still have."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return memory_limit_bytes() - pages * os.sysconf("SC_PAGE_SIZE")


def _quotas(root: Path) -> Iterator[float]:
    for folder in _folders(root, ""):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        if quota.isdecimal() and period.strip().isdecimal():
            yield int(quota) / int(period)
    for folder in _folders(root, "cpu"):
        quota_us, period_us = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota_us and period_us:
            yield quota_us / period_us


def _memory_limits(root: Path) -> Iterator[int]:
    for controller, name in (("", "memory.max"), ("memory", "memory.limit_in_bytes")):
        for folder in _folders(root, controller):
            limit = _number(folder / name)
            if limit:
                yield limit


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Give the folder of this process's group and those above it, which bound it too.

    `controller` is the empty name of version 2, or one of version 1. In a container the path may be the host's: what is
    mounted there is then the group itself.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controller not in controllers.split(","):
            continue
        for mount in _mounts(root, controllers):
            inside = mount / path.lstrip("/")
            yield from (folder for folder in (inside, *inside.parents) if folder.is_relative_to(mount))


def _mounts(root: Path, controllers: str) -> Iterator[Path]:
    base = root / "sys/fs/cgroup"
    places = (
        [base, base / "unified"]
        if not controllers
        else [base / controllers, *map(base.joinpath, controllers.split(","))]
    )
    yield from (place for place in dict.fromkeys(places) if place.is_dir())


def _number(path: Path) -> int:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
