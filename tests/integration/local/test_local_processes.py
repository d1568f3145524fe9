"""The process tree of the services: it starts, is reported, and ends whatever ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pytest

from local import state as states
from local import valkey
from local.lifecycle import report, take_down
from local.listener import bind
from local.stack import LocalStack
from serving.errors import LocalStackError

SERVICES = ("gateway", "support", "valkey")
OWNER = """
import sys
from pathlib import Path
from local.stack import LocalStack
state, root, kind = sys.argv[1:]
stack = LocalStack(Path(state), Path(root), on_progress=lambda text: None, detached=kind == "detached")
stack.start_services()
print("started", flush=True)
sys.stdin.read()
"""

DEPLOYER = """
import os, sys
from pathlib import Path
from local.commands import Commands
program = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
Commands(Path(sys.argv[1])).run("step", [sys.executable, "-c", program], folder=Path(), environment=dict(os.environ))
"""

SUPERVISOR_ENDS = """
import time
from local import supervisor
supervisor._end_with_owner(lambda: True)
time.sleep(0.2)  # the other thread waits for its owner by now
"""


def session_members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def wait_until(done: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


@pytest.fixture(name="stack")
def stack_fixture(root: Path, tmp_path: Path) -> Iterator[LocalStack]:
    with LocalStack(tmp_path, root, on_progress=lambda _: None) as stack:
        stack.start_services()
        yield stack


def test_services_answer_on_loopback_and_are_reported(stack: LocalStack, tmp_path: Path) -> None:
    document = report(tmp_path)
    assert document["state"] == "starting", "it is up when the stage is deployed and the API answers"
    state = states.read(tmp_path)
    assert state is not None
    assert sorted(state.services) == sorted(SERVICES)
    assert valkey.answers(state.services["valkey"].port)
    s3 = boto3.client(
        "s3",
        endpoint_url=stack.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - the local stack checks none
    )
    assert s3.list_buckets()["Buckets"] == []


def test_take_down_leaves_no_process(stack: LocalStack, tmp_path: Path) -> None:
    session = stack.pid
    assert len(session_members(session)) > len(SERVICES)
    assert take_down(tmp_path)
    assert session_members(session) == []
    assert report(tmp_path)["state"] == "down"
    assert not take_down(tmp_path)


def test_a_killed_supervisor_takes_its_services_along_and_leaves_a_stale_state(
    stack: LocalStack, root: Path, tmp_path: Path
) -> None:
    session = stack.pid
    os.kill(session, signal.SIGKILL)
    wait_until(lambda: session_members(session) == [])
    assert report(tmp_path)["state"] == "stale"
    with LocalStack(tmp_path, root, on_progress=lambda _: None) as successor:
        successor.start_services()
        assert successor.pid != session


def test_a_crashed_service_is_reported_and_the_rest_goes_on(stack: LocalStack, tmp_path: Path) -> None:
    state = states.read(tmp_path)
    assert state is not None
    os.kill(state.services["support"].pid, signal.SIGKILL)
    wait_until(lambda: report(tmp_path)["state"] == "degraded")
    log = (tmp_path / "logs" / "supervisor.log").read_text()
    assert "support ended with code -9" in log
    assert valkey.answers(state.services["valkey"].port)
    assert stack.endpoint_url


@pytest.mark.usefixtures("stack")
def test_a_second_stack_in_the_same_folder_is_refused(root: Path, tmp_path: Path) -> None:
    second = LocalStack(tmp_path, root, on_progress=lambda _: None)
    end = f"streamhub local down --state {tmp_path}"
    with pytest.raises(LocalStackError, match=f"a stack that is not ready runs there .* {end}"):
        second.start_services()


def test_a_port_in_use_is_one_line_and_leaves_nothing(root: Path, tmp_path: Path) -> None:
    with bind(0) as taken:
        port = taken.getsockname()[1]
        stack = LocalStack(tmp_path, root, on_progress=lambda _: None, port=port)
        with stack, pytest.raises(LocalStackError, match=f"port {port} of 127.0.0.1 is in use") as refused:
            stack.start_services()
    assert "\n" not in str(refused.value)
    assert report(tmp_path)["state"] == "down"


@pytest.mark.parametrize("kind", ["owned", "detached"])
def test_a_stack_ends_with_the_process_that_owns_or_still_starts_it(root: Path, tmp_path: Path, kind: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), str(root), kind],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        state = states.read(tmp_path)
        owner.kill()
    assert state is not None
    wait_until(lambda: session_members(state.pid) == [])


def test_a_program_of_the_deployment_ends_with_who_runs_it(root: Path, tmp_path: Path) -> None:
    log = tmp_path / "step.log"
    with subprocess.Popen([sys.executable, "-c", DEPLOYER, str(tmp_path)], cwd=root) as deployer:
        wait_until(lambda: log.exists() and log.read_text().endswith("\n"))
        session = int(log.read_text())  # each program leads a session of its own
        assert session_members(session)
        deployer.kill()
    wait_until(lambda: session_members(session) == [])


def test_valkey_keeps_to_loopback(stack: LocalStack, tmp_path: Path) -> None:
    state = states.read(tmp_path)
    assert state is not None
    assert stack.pid == state.pid
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, family=socket.AF_INET)}
    for address in sorted(others - {"127.0.0.1", "127.0.1.1"}):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((str(address), state.services["valkey"].port), timeout=2).close()


def test_a_supervisor_may_end_before_its_owner_does(root: Path) -> None:
    command = [sys.executable, "-c", SUPERVISOR_ENDS]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        assert (process.wait(timeout=60), said) == (0, b"")
