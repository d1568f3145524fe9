"""What the benchmark measures and ends is a server with all it started, whoever outlived whom."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys

from benchmarks.serving import processes

GRANDPARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"])
print(child.pid, flush=True)
{then}
"""


def spawned(then: str) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-c", GRANDPARENT.format(then=then)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    return process, max(int(process.stdout.readline()), int(process.stdout.readline()))


def test_a_tree_holds_the_process_and_its_children() -> None:
    process, child = spawned("child.wait()")
    with process:
        assert processes.tree(process.pid) == sorted([process.pid, child])
        processes.send_signal(processes.tree(process.pid), signal.SIGKILL)


def test_a_child_that_outlived_its_parent_is_still_found_and_ended() -> None:
    process, child = spawned("")
    with process:
        process.wait(10)
        assert processes.tree(process.pid) == [child]
        processes.send_signal(processes.tree(process.pid), signal.SIGKILL)


def test_a_tree_is_moved_to_one_core_while_it_runs() -> None:
    process, child = spawned("child.wait()")
    with process:
        processes.pin(processes.tree(process.pid), processes.SERVER_CORE)
        assert [len(os.sched_getaffinity(pid)) for pid in (process.pid, child)] == [1, 1]
        processes.send_signal(processes.tree(process.pid), signal.SIGKILL)


def test_a_process_that_is_gone_has_no_tree() -> None:
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    assert processes.tree(int(done.stdout)) == []


def test_cpu_time_is_what_the_kernel_accounts_to_the_process() -> None:
    before, accounted_s = processes.cpu_s(os.getpid()), used_s()
    while used_s() - accounted_s < 0.2:
        pass
    measured_s = processes.cpu_s(os.getpid()) - before
    assert abs(measured_s - (used_s() - accounted_s)) < 0.05


def used_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def test_memory_of_a_process_grows_with_what_it_touches() -> None:
    before = processes.pss_bytes(os.getpid())
    held = bytearray(os.urandom(1 << 20) * 32)
    assert 28 << 20 < processes.pss_bytes(os.getpid()) - before < 64 << 20
    assert len(held) == 32 << 20


def test_pinned_gives_one_core_inside_and_all_of_them_back() -> None:
    before = os.sched_getaffinity(0)
    with processes.pinned(processes.SERVER_CORE):
        server = os.sched_getaffinity(0)
    with processes.pinned(processes.CLIENT_CORE):
        client = os.sched_getaffinity(0)
    assert len(server) == len(client) == 1
    assert (server != client) or len(before) == 1
    assert os.sched_getaffinity(0) == before
