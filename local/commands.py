"""Programs that the deployment runs: their output goes to logs, a failure is one line, and all can be ended at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from local.children import die_with_parent
from serving.errors import LocalStackError

_SHOWN_LINES = 4
_MARKS = ("❌", "failed:", "_FAILED", "Error:", "error:")


class Commands:
    """Runs programs, in several threads if need be; after `stop` nothing runs and nothing starts."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, what: str, command: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> None:
        """Run one program to its end; `what` names its log.

        Raises:
            LocalStackError: it failed, or the stack is being stopped.

        """
        log = self.logs / f"{what}.log"
        with log.open("wb") as output:
            process = self._start(command, folder=folder, environment=environment, output=output.fileno())
            code = process.wait()
        with self._lock:
            self._running.discard(process)
            stopped = self._stopped
        if stopped:
            raise LocalStackError(f"{what}: the stack is being stopped")
        if code != 0:
            raise LocalStackError(f"{what} gave exit {code}: {summary_of(log)} (log: {log})")

    def stop(self) -> None:
        """End what runs, and let nothing start any more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)

    def _start(
        self, command: Sequence[str], *, folder: Path, environment: Mapping[str, str], output: int
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise LocalStackError(f"{command[0]}: the stack is being stopped")
            process = subprocess.Popen(  # noqa: S603 - commands of this package alone
                command,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # an interrupt is ours to handle; and `stop` reaches what it started itself
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, prepared at import
            )
            self._running.add(process)
            return process


def summary_of(log: Path) -> str:
    """Give what a failed program said, in one line: from its first marked line on, else its last words."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if any(mark in line for mark in _MARKS)), None)
    shown = lines[first : first + _SHOWN_LINES] if first is not None else lines[-_SHOWN_LINES:]
    return " ".join(shown) if shown else "no output"
