"""Whether a stack runs in a folder, what it says of itself, and how to end it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from local import kept
from local import state as states
from serving.errors import LocalStackError

_END_S = 40.0
_FORCED_END_S = 5.0
_ORPHANS_S = 30.0
_STATE_S = 10.0
_POLL_S = 0.05
_LOCK = "lock"


def refuse_running(state_dir: Path) -> None:
    """Raise LocalStackError if a stack runs in that folder."""
    state = states.read(state_dir)
    if state is not None and states.is_alive(state):
        found = "a ready stack" if state.ready else "a stack that is not ready"
        why = "" if state.ready else "it is starting, or lost a service; "
        raise LocalStackError(
            f"{state_dir}: {found} runs there (process {state.pid}): {why}see streamhub local status "
            f"--state {state_dir}, end it with streamhub local down --state {state_dir}"
        )


def take_lock(state_dir: Path) -> int:
    """Take the folder for one stack; the descriptor, and every copy of it, holds it until it is closed.

    Services of a stack whose supervisor was killed are waited for: they are ending.

    Raises:
        LocalStackError: another process starts or runs a stack there.

    """
    descriptor = os.open(state_dir / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _ORPHANS_S
    while not _locked(descriptor):
        if report(state_dir)["state"] != "stale" or time.monotonic() > deadline:
            os.close(descriptor)
            raise LocalStackError(
                f"{state_dir}: another process starts a stack there; wait for it, or give another --state"
            )
        time.sleep(_POLL_S)
    return descriptor


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def report(state_dir: Path) -> dict[str, object]:
    """Give `state` (up, starting, degraded, stale or down), `pid`, the services, and `kept_at`.

    `kept_at` is when the last moment was kept, in seconds since the epoch; None where nothing is.
    """
    state = states.read(state_dir)
    document: dict[str, object] = {"state": "down", "pid": None, "services": {}, "kept_at": _kept_at(state_dir)}
    if state is None or state.failed:
        return document
    if not states.is_alive(state):
        return document | {"state": "stale"}
    services = {name: asdict(service) for name, service in state.services.items()}
    return document | {"state": _word(state), "pid": state.pid, "services": services, "started": state.started}


def _kept_at(state_dir: Path) -> float | None:
    try:
        moment = kept.snapshot_of(state_dir).moment() if kept.read(state_dir) is not None else None
    except LocalStackError:
        return None  # the next up says what is wrong with it
    return moment[1] if moment is not None else None


def take_down(state_dir: Path) -> bool:
    """End the stack of that folder and forget it; False if none ran.

    Raises:
        LocalStackError: it does not end.

    """
    state = _soon(state_dir)
    if state is None or not states.is_alive(state):
        states.forget(state_dir)
        return False
    if not end(state.pid, gone=lambda: not states.is_alive(state)):
        raise LocalStackError(f"process {state.pid} does not end; allowed: a stack of yours; end it by its number")
    states.forget(state_dir)
    return True


def _soon(state_dir: Path) -> states.StackState | None:
    """Give the state of a folder; where a stack begins to start, once it is there."""
    deadline = time.monotonic() + _STATE_S
    while (state := states.read(state_dir)) is None and _is_held(state_dir) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return state


def _is_held(state_dir: Path) -> bool:
    try:
        descriptor = os.open(state_dir / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor)
    finally:
        os.close(descriptor)


def end(pid: int, *, gone: Callable[[], bool]) -> bool:
    """Ask a supervisor to end and wait until it is gone, by force if need be; say whether it is."""
    for number, patience_s in ((signal.SIGTERM, _END_S), (signal.SIGKILL, _FORCED_END_S)):
        if gone():
            return True
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + patience_s
        while not gone() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    return gone()


def _word(state: states.StackState) -> str:
    if state.ready:
        return "up"
    ended = any(service.exit_code is not None for service in state.services.values())
    return "degraded" if ended else "starting"
