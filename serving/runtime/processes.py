"""Several processes on one port: started, watched, started again when one dies, and ended together.

Each is a whole server with a session of its own, made after it was started; the kernel spreads connections over them
(SO_REUSEPORT, socket(7)). This process answers nothing and loads nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import orjson

from serving.errors import ServerError
from serving.runtime.address import bind
from serving.runtime.cgroup import memory_limit_bytes, usable_cores
from serving.runtime.exposition import Board
from serving.runtime.supervision import Death, check_memory, check_processes, restart_in_s

_KILLED_AFTER_S = 2.0
"""Beyond the time that a process has to drain; together below the 30 s that SageMaker gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What all processes serve; `arguments` are those of `python -m serving.runtime` for one of them."""

    count: int
    arguments: tuple[str, ...]
    host: str
    port: int
    archive: Path | None
    """A file is unpacked once, by the first process."""
    drain_s: float


def supervise(group: Group, *, on_ready: Callable[[dict[str, object]], None]) -> int:
    """Serve until SIGTERM or SIGINT; `on_ready` gets what one process says, and their number, once all are warm.

    Returns 0 when every process ended well, 1 when one did not, or could not be started.

    Raises:
        ServerError: too many processes for the cores or the memory of this one, or the address is taken.

    """
    cores = usable_cores()
    if wrong := check_processes(group.count, cores=cores):
        raise ServerError(wrong)
    with (
        bind(group.host, group.port, shared=True) as reserved,
        tempfile.TemporaryDirectory(prefix="streamhub-") as made,
    ):
        supervisor = _Supervisor(group, reserved, Path(made), cores=cores // group.count)
        return asyncio.run(supervisor.run(on_ready))


class _Process:
    """One process from its start to its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.served = False

    async def said(self) -> bytes:
        """Give the next line that it says: what it serves once it is warm, then that it is ready; empty: it ended."""
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        return await self._process.stdout.readline()

    async def permit(self) -> None:
        """Let it be ready, and return once it is."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(ConnectionError):
            self._process.stdin.write(b"go\n")
            await self._process.stdin.drain()
            self.served = bool(await self.said())

    async def ended(self) -> int:
        """Give the exit status once it is over."""
        return await self._process.wait()

    async def end(self, within_s: float) -> bool:
        """Ask it to end and kill it if it does not; whether it ended well, as it may in any way before it served."""
        self._signal(signal.SIGTERM)
        try:
            status = await asyncio.wait_for(self._process.wait(), within_s)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._process.wait()
            return False
        return status == 0 or not self.served

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal; `Popen.send_signal` looks for the end first and takes the status that asyncio waits for."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class _Supervisor:
    def __init__(self, group: Group, reserved: socket.socket, folder: Path, *, cores: int) -> None:
        self._group = group
        self._port: int = reserved.getsockname()[1]
        self._unpacked = folder / "model"
        self._board = folder / "metrics"
        self._board.mkdir()
        self._cores = cores
        self._environment = {**os.environ, "TMPDIR": str(folder)}
        """What a process leaves that is killed goes with this one."""
        self._stopping = asyncio.Event()
        self._failed = False
        self._restarts = 0
        self._alive: dict[int, _Process] = {}

    async def run(self, on_ready: Callable[[dict[str, object]], None]) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        starting = asyncio.ensure_future(self._start_all())
        stopping = asyncio.ensure_future(self._stopping.wait())
        watchers: list[asyncio.Task[None]] = []
        try:
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not self._stopping.is_set() and (line := starting.result()):
                watchers = [asyncio.ensure_future(self._watch(slot)) for slot in tuple(self._alive)]
                on_ready({**orjson.loads(line), "processes": self._group.count})
                await stopping
        finally:
            await _cancelled(starting, stopping, *watchers)
            within_s = self._group.drain_s + _KILLED_AFTER_S
            well = await asyncio.gather(*(process.end(within_s) for process in self._alive.values()))
        return 0 if all(well) and not self._failed else 1

    async def _start_all(self) -> bytes:
        """Start the first alone: it unpacks, and its memory says whether the others fit; empty: one did not start."""
        first = await self._start(0, *self._first_arguments())
        line = await first.said()
        if line:
            limit_bytes = memory_limit_bytes()
            if wrong := check_memory(self._group.count, each_bytes=own_bytes(first.pid), limit_bytes=limit_bytes):
                raise ServerError(wrong)
            others = [await self._start(slot, *self._later_arguments()) for slot in range(1, self._group.count)]
            if all(await asyncio.gather(*(process.said() for process in others))):
                self._count()
                await asyncio.gather(*(process.permit() for process in (first, *others)))
                return line
        self._failed = True
        return b""

    async def _start(self, slot: int, *more: str) -> _Process:
        command = [sys.executable, "-m", "serving.runtime", *self._group.arguments, *more]
        command += ["--processes", "1", "--port", str(self._port), "--cores", str(self._cores)]
        pipe = asyncio.subprocess.PIPE
        started = await asyncio.create_subprocess_exec(
            *command, "--member", str(self._board), stdin=pipe, stdout=pipe, env=self._environment
        )
        process = self._alive[slot] = _Process(started)
        return process

    def _first_arguments(self) -> tuple[str, ...]:
        archive = self._group.archive
        return ("--workdir", str(self._unpacked)) if archive is not None and archive.is_file() else ()

    def _later_arguments(self) -> tuple[str, ...]:
        return ("--archive", str(self._unpacked)) if self._first_arguments() else ()

    async def _watch(self, slot: int) -> None:
        deaths: list[Death] = []
        while True:
            process = self._alive[slot]
            status = await process.ended()
            if self._stopping.is_set():
                return
            Board(self._board).end(process.pid)
            deaths.append(Death(monotonic(), process.served))
            pause_s = restart_in_s(deaths)
            if pause_s is None:
                sys.stderr.write(f"serving.runtime: process {slot} dies whenever it is started; the server ends\n")
                self._failed = True
                self._stopping.set()
                return
            sys.stderr.write(f"serving.runtime: process {slot} ended with {status}; started again in {pause_s:g} s\n")
            await asyncio.sleep(pause_s)
            self._restarts += 1
            self._count()
            again = await self._start(slot, *self._later_arguments(), "--late")
            if await again.said():
                await again.permit()

    def _count(self) -> None:
        lines = (
            "# TYPE streamhub_processes gauge",
            f"streamhub_processes {self._group.count}",
            "# TYPE streamhub_process_restarts_total counter",
            f"streamhub_process_restarts_total {self._restarts}",
        )
        Board(self._board).write("\n".join(lines) + "\n", process=os.getpid())


def own_bytes(pid: int) -> int:
    """Give the memory that a process has for itself (proc(5), smaps_rollup); 0 where the kernel does not say."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
    return 0


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
