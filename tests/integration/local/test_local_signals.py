"""`local up` under signals: at any phase nothing of it stays, its exit code is 128 + n, and its last line says so."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from local import state as states
from local.lifecycle import report, take_down
from local.listener import bind

CODE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from cli.main import main; main()"
LAST_LINE = "streamhub: interrupted; what it had started is ended"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PATIENCE_S = 120.0


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def processes_of(folder: Path) -> list[int]:
    """Give what runs for the stack of that folder: its command line or its environment names it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # it ended meanwhile; a zombie has neither
                if bytes(folder) in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


@dataclass(frozen=True)
class Phase:
    """A moment of `up` that can be seen in its folder."""

    name: str
    reached: Callable[[Path], bool]


def state_of(folder: Path) -> states.StackState | None:
    return states.read(folder) if folder.exists() else None


def has(folder: Path, service: str) -> bool:
    state = state_of(folder)
    return state is not None and service in state.services


BEFORE_THE_STATE = Phase("before-the-state", lambda folder: (folder / "lock").exists())
CACHE_STARTS = Phase("cache-starts", lambda folder: has(folder, "valkey"))
GATEWAY_STARTS = Phase("gateway-starts", lambda folder: has(folder, "gateway"))
DEPLOYING = Phase("deploying", lambda folder: (folder / "logs" / "cdk-bootstrap.log").exists())
PHASES = (BEFORE_THE_STATE, CACHE_STARTS, GATEWAY_STARTS, DEPLOYING)


def start(folder: Path, root: Path, **streams: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CODE, "local", "up", "--fresh", "--state", str(folder)]
    return subprocess.Popen(command, cwd=root, text=True, **{"stderr": subprocess.PIPE, **streams})  # type: ignore[call-overload,no-any-return]


def ports_of(folder: Path) -> list[int]:
    state = state_of(folder)
    return [service.port for service in state.services.values() if service.port] if state is not None else []


def ended_by(root: Path, folder: Path, *, phase: Phase, number: signal.Signals) -> None:
    with start(folder, root) as up:
        wait_until(lambda: phase.reached(folder) or up.poll() is not None)
        ports = ports_of(folder)
        up.send_signal(number)
        assert up.stderr is not None
        said = up.stderr.read()
        code = up.wait(timeout=PATIENCE_S)
    assert (code, said.strip().splitlines()[-1:]) == (128 + number, [LAST_LINE]), said
    assert processes_of(folder) == []
    assert report(folder)["state"] == "down"
    for port in ports:
        bind(port).close()


@pytest.mark.parametrize(
    ("phase", "number"),
    [(BEFORE_THE_STATE, signal.SIGTERM), (GATEWAY_STARTS, signal.SIGINT), (DEPLOYING, signal.SIGQUIT)],
    ids=["SIGTERM-before-the-state", "SIGINT-gateway-starts", "SIGQUIT-deploying"],
)
def test_a_signal_ends_an_up_with_all_that_it_started(
    root: Path, tmp_path: Path, phase: Phase, number: signal.Signals
) -> None:
    ended_by(root, tmp_path / "state", phase=phase, number=number)


def test_an_up_whose_terminal_is_closed_leaves_nothing(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(root)
        os.execv(sys.executable, [sys.executable, "-c", CODE, "local", "up", "--fresh", "--state", str(folder)])  # noqa: S606 - the test's own program
    wait_until(lambda: GATEWAY_STARTS.reached(folder))
    os.close(terminal)  # the kernel sends SIGHUP to the session
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
    assert processes_of(folder) == []
    assert report(folder)["state"] == "down"


def test_a_down_ends_an_up_that_deploys_and_both_say_so(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with start(folder, root) as up:
        wait_until(lambda: DEPLOYING.reached(folder) or up.poll() is not None)
        assert take_down(folder)
        assert up.stderr is not None
        said = up.stderr.read()
        assert up.wait(timeout=PATIENCE_S) == 1
    assert "the stack was ended while it was deployed" in said.strip().splitlines()[-1]
    assert processes_of(folder) == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(int(os.environ.get("STREAMHUB_SIGNAL_ROUNDS", "12"))))
def test_any_signal_to_any_process_at_any_moment_leaves_nothing_and_the_next_up_works(
    root: Path, tmp_path: Path, seed: int
) -> None:
    """A signal to `up`, or a kill of it, of the supervisor or of a service, then `down`, then a start that works."""
    chance = random.Random(seed)  # noqa: S311 - no secrets
    folder = tmp_path / "state"
    with start(folder, root) as up:
        phase = chance.choice(PHASES)
        wait_until(lambda: phase.reached(folder) or up.poll() is not None)
        time.sleep(chance.uniform(0, 4))  # any moment is the point
        state = state_of(folder)
        services = [state.pid, *(service.pid for service in state.services.values())] if state is not None else []
        target, number = chance.choice(
            [*((up.pid, number) for number in SIGNALS), *((pid, signal.SIGKILL) for pid in (up.pid, *services))]
        )
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, number)
        if target == up.pid and number in SIGNALS:
            assert up.wait(timeout=PATIENCE_S) == 128 + number
            assert processes_of(folder) == []
        take_down(folder)
        up.communicate(timeout=PATIENCE_S)
    wait_until(lambda: processes_of(folder) == [])
    with start(folder, root) as again:
        wait_until(lambda: GATEWAY_STARTS.reached(folder) or again.poll() is not None)
        assert again.poll() is None, "the next up starts"
        again.send_signal(signal.SIGTERM)
        again.communicate(timeout=PATIENCE_S)
    assert processes_of(folder) == []
