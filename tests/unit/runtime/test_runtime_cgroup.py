"""Trees of /proc and /sys as the kernel's documentation and container runtimes lay them out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from serving.runtime.cgroup import free_bytes, memory_limit_bytes, usable_cores

GIB = 1 << 30


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return root


CONTAINER_V2 = {
    "proc/self/cgroup": "0::/\n",
    "sys/fs/cgroup/cpu.max": "250000 100000\n",
    "sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
}
SERVICE_V2 = {
    "proc/self/cgroup": "0::/system.slice/model.service\n",
    "sys/fs/cgroup/system.slice/cpu.max": "300000 100000\n",
    "sys/fs/cgroup/system.slice/memory.max": f"{3 * GIB}\n",
    "sys/fs/cgroup/system.slice/model.service/cpu.max": "max 100000\n",
    "sys/fs/cgroup/system.slice/model.service/memory.max": "max\n",
}
CONTAINER_V1 = {
    "proc/self/cgroup": "4:memory:/docker/0123abcd\n3:cpu,cpuacct:/docker/0123abcd\n1:name=systemd:/docker/0123abcd\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "400000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{4 * GIB}\n",
}
UNLIMITED_V1 = {
    "proc/self/cgroup": "4:memory:/\n3:cpu:/\n0::/\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
}
HYBRID = {
    "proc/self/cgroup": "4:memory:/job\n2:cpu:/job\n0::/\n",
    "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "150000\n",
    "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/job/memory.limit_in_bytes": f"{GIB}\n",
    "sys/fs/cgroup/unified/cgroup.procs": "1\n",
}


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        (CONTAINER_V2, 2, 2 * GIB),
        (SERVICE_V2, 3, 3 * GIB),
        (CONTAINER_V1, 4, 4 * GIB),
        (UNLIMITED_V1, 8, 16 * GIB),
        (HYBRID, 1, GIB),
        ({}, 8, 16 * GIB),
        ({"proc/self/cgroup": "nonsense\n0::/../../etc\n"}, 8, 16 * GIB),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1, 16 * GIB),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "x\n", "sys/fs/cgroup/memory.max": ""}, 8, 16 * GIB),
    ],
    ids=[
        "container v2",
        "service v2",
        "container v1",
        "no limit v1",
        "both",
        "no cgroups",
        "odd",
        "half a core",
        "broken",
    ],
)
def test_the_group_bounds_cores_and_memory(tmp_path: Path, files: dict[str, str], cores: int, memory: int) -> None:
    root = tree(tmp_path, files)
    assert usable_cores(root=root, affinity=8) == cores
    assert memory_limit_bytes(root=root, installed=16 * GIB) == memory


def test_the_affinity_bounds_cores_too(tmp_path: Path) -> None:
    assert usable_cores(root=tree(tmp_path, CONTAINER_V1), affinity=2) == 2


def test_this_machine_has_cores_and_memory() -> None:
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))
    assert 0 < free_bytes() < memory_limit_bytes()
    assert 1 << 26 < memory_limit_bytes() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
