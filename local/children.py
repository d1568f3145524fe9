"""Child processes of the supervisor: started, known to answer, watched and ended; none outlives it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from local.state import ServiceState
from serving.errors import LocalStackError

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.02
_TAIL_BYTES = 2_000


class NotWantedError(Exception):
    """Nobody waits for that child any more."""


class Child:
    """One service: its standard error goes to a log, its standard output too after the line that tells the port."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        inherited: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.port = 0
        self._log = log
        self._announced = threading.Event()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log_file: IO[bytes] = log.open("ab")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - commands of this package alone
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log_file,
                pass_fds=inherited,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, prepared at import
            )
        except OSError as error:
            self._log_file.close()
            raise LocalStackError(f"{name}: cannot run {command[0]} ({error}); run make setup") from error
        threading.Thread(target=self._read, name=f"{name}-output", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, None while it runs."""
        return self._process.poll()

    def state(self) -> ServiceState:
        """Give what others may know of it."""
        return ServiceState(pid=self.pid, port=self.port, log=str(self._log), exit_code=self.exit_code)

    def wait_announced(self, *, timeout_s: float, unless: Callable[[], bool]) -> None:
        """Wait until it has printed its port.

        Raises:
            LocalStackError: it ended, or said nothing in time; with the last line of its log.
            NotWantedError: `unless` came true.

        """
        self._wait(self._announced.is_set, timeout_s=timeout_s, unless=unless)

    def wait_answering(self, port: int, *, process: Callable[[int], int | None], timeout_s: float) -> None:
        """Wait until it, and no other process, answers on a port that it was told; `process` says which does.

        Raises:
            LocalStackError: as above.

        """
        self._wait(lambda: process(port) == self.pid, timeout_s=timeout_s, unless=lambda: False)
        self.port = port

    def end(self, *, timeout_s: float) -> None:
        """Ask it to end; end it by force if it does not in time."""
        if self.exit_code is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log_file.close()

    def last_line(self) -> str:
        """Give the last line that it wrote, for a message."""
        with contextlib.suppress(ValueError):  # it is closed already
            self._log_file.flush()
        return last_line(self._log)

    def _wait(self, done: Callable[[], bool], *, timeout_s: float, unless: Callable[[], bool]) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            if unless():
                raise NotWantedError(self.name)
            if self.exit_code is not None:
                raise LocalStackError(
                    f"{self.name} ended with code {self.exit_code} as it started: {self.last_line()} (log: {self._log})"
                )
            if time.monotonic() > deadline:
                raise LocalStackError(
                    f"{self.name} is not ready after {timeout_s:.0f} s: {self.last_line()} (log: {self._log})"
                )
            time.sleep(_POLL_S)

    def _read(self) -> None:
        output = self._process.stdout
        if output is None:
            return
        for line in output:
            port = None if self._announced.is_set() else _port_of(line)
            if port is not None:
                self.port = port
                self._announced.set()
            else:
                with contextlib.suppress(ValueError):  # the log is closed while it ends
                    self._log_file.write(line)
                    self._log_file.flush()


def last_line(log: Path) -> str:
    """Give the last line of a log, for a message."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"


def _port_of(line: bytes) -> int | None:
    try:
        announced = json.loads(line)
    except ValueError:
        return None
    port = announced.get("port") if isinstance(announced, dict) else None
    return port if isinstance(port, int) else None


_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Let the kernel end this child when the one who started it dies, however it dies."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
