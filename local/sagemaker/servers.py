"""Model server processes: one for each distinct archive and environment, started, watched, restarted and ended."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from weakref import WeakValueDictionary

import orjson

from local.sagemaker.archives import Archive
from local.sagemaker.options import Options
from local.sagemaker.streamed import Stream, opened
from local.sagemaker.upstream import HOST, Answer, UnreachableError, Upstream
from serving.errors import EndpointError

_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_STEADY_S = 60.0
_TAIL_BYTES = 600
# Linux: the process gets SIGTERM when its parent dies, even by SIGKILL, so nothing is left behind (prctl(2),
# PR_SET_PDEATHSIG = 1); it outlives execv. A parent that died before the call is seen by the changed parent's id.
_TIED = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""
_log = logging.getLogger(__name__)


def server_key(archive: Archive, environment: Mapping[str, str], replica: int = 0) -> str:
    """Give what makes two variants share a process: the same bytes with the same environment, and its number."""
    document = orjson.dumps([archive.sha256, dict(environment), replica], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(document).hexdigest()[:16]


def _tied(command: tuple[str, ...]) -> tuple[str, ...]:
    if sys.platform != "linux":
        return command
    return (sys.executable, "-c", _TIED, str(os.getpid()), *command)


class ModelServer:
    """One process on one archive; it comes back by itself when it dies, later each time."""

    def __init__(
        self, archive: Archive, environment: Mapping[str, str], *, options: Options, logs: Path, replica: int = 0
    ) -> None:
        self._archive = archive
        self._environment = dict(environment)
        self._options = options
        self._log_file = logs / f"{archive.sha256[:12]}-{server_key(archive, environment, replica)}.log"
        self._process: asyncio.subprocess.Process | None = None
        self._upstream: Upstream | None = None
        self._up = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self.outstanding = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.users = 0

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self, timeout_s: float) -> None:
        """Launch it and return when it is ready.

        Raises:
            EndpointError: it ended or said nothing in time; the text is SageMaker's, then what the process said.

        """
        await self._launch(timeout_s)
        self._watch = asyncio.create_task(self._keep_alive(timeout_s))

    def start_later(self, timeout_s: float) -> None:
        """Launch it in the background until it is ready: after a restart its endpoint is in service already."""
        self._watch = asyncio.create_task(self._keep_alive(timeout_s))

    async def ready(self, timeout_s: float) -> None:
        """Return when it is ready, which it may not be again yet.

        Raises:
            EndpointError: it is not in time, or it ends.

        """
        try:
            await asyncio.wait_for(self._reachable(), timeout_s)
        except TimeoutError as error:
            raise EndpointError(self._unhealthy(error, timeout_s)) from error

    async def retire(self) -> None:
        """End the process once every request that was sent its way has its answer, or the time for it is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), self._options.stop_timeout_s)
        await self.stop()

    async def stop(self) -> None:
        """End the process, by force if it does not drain in time."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None
        await self._end()
        self._up.set()  # whoever waits for it learns that it ends

    async def post(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Forward one request, waiting for the process if it is just coming (back)."""
        self.outstanding += 1
        self._idle.clear()
        try:
            return await self._post(path, headers, body)
        finally:
            self.outstanding -= 1
            if not self.outstanding:
                self._idle.set()

    @contextlib.asynccontextmanager
    async def stream(self, path: str, headers: dict[str, str], body: bytes) -> AsyncIterator[Stream]:
        """Forward one request and give its answer as it comes, waiting for the process as `post` does."""
        self.outstanding += 1
        self._idle.clear()
        try:
            async with contextlib.AsyncExitStack() as stack:
                yield await self._stream(stack, path, headers, body)
        finally:
            self.outstanding -= 1
            if not self.outstanding:
                self._idle.set()

    async def _post(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        while True:
            upstream = await self._reachable()
            try:
                return await upstream.post(path, headers, body)
            except UnreachableError:
                self._lost(upstream)

    async def _stream(
        self, stack: contextlib.AsyncExitStack, path: str, headers: dict[str, str], body: bytes
    ) -> Stream:
        while True:
            upstream = await self._reachable()
            try:
                return await stack.enter_async_context(opened(upstream.port, path, headers, body))
            except UnreachableError:
                self._lost(upstream)

    async def _reachable(self) -> Upstream:
        if not self._up.is_set():
            await self._up.wait()
        if self._upstream is None:
            raise EndpointError("the model server is ending")
        return self._upstream

    def _lost(self, upstream: Upstream) -> None:
        # it has died and its end is not noticed yet; nothing was sent, so the next process may answer
        if self._upstream is upstream:
            self._down()

    async def _launch(self, timeout_s: float) -> None:
        self._log_file.parent.mkdir(parents=True, exist_ok=True)
        command = _tied(
            (*self._options.server_command, "--archive", str(self._archive.path), "--host", HOST, "--port", "0")
        )
        try:
            with self._log_file.open("ab") as errors:
                self._process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, **self._environment},
                )
        except (OSError, ValueError) as error:  # no such file, too many open ones, a zero byte in the environment
            raise EndpointError(f"the model server cannot be started: {error}") from error
        try:
            port = await asyncio.wait_for(self._ready_line(self._process), timeout_s)
        except (TimeoutError, EndpointError) as error:
            await self._end()
            raise EndpointError(self._unhealthy(error, timeout_s)) from error
        except BaseException:
            await self._end()
            raise
        self._upstream = Upstream(port)
        self._up.set()

    async def _ready_line(self, process: asyncio.subprocess.Process) -> int:
        if process.stdout is None:
            raise EndpointError("the model server has no output")
        while line := await process.stdout.readline():
            with contextlib.suppress(orjson.JSONDecodeError):
                document = orjson.loads(line)
                if isinstance(document, dict) and isinstance(document.get("port"), int):
                    return int(document["port"])
        raise EndpointError(f"the model server ended with exit code {await process.wait()}")

    def _unhealthy(self, error: Exception, timeout_s: float) -> str:
        why = f"not ready within {timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
        size = self._log_file.stat().st_size
        with self._log_file.open("rb") as file:
            file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read().decode("utf-8", "replace")
        said = (tail if size <= _TAIL_BYTES else tail.partition("\n")[2]).strip()
        return (
            "The primary container did not pass the ping health check. Please check CloudWatch logs for this endpoint. "
            f"({why}; {self._log_file}: {said or 'nothing'})"
        )

    async def _keep_alive(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        backoff = _FIRST_BACKOFF_S
        while True:
            started = loop.time()
            if self._process is not None and self._up.is_set():
                await self._drain_output(self._process)
                code = await self._process.wait()
                self._down()
                _log.warning("model server %s ended with exit code %d", self._archive.path.name, code)
                backoff = _FIRST_BACKOFF_S if loop.time() - started > _STEADY_S else backoff
                await asyncio.sleep(backoff)
            try:
                await self._launch(timeout_s)
            except EndpointError as error:
                _log.warning("model server %s: %s", self._archive.path.name, error)
                await asyncio.sleep(backoff)
            backoff = min(_LONGEST_BACKOFF_S, 2 * backoff)

    async def _drain_output(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is not None:
            while await process.stdout.read(1 << 16):
                pass  # nothing follows the first line; a full pipe would stop the process

    def _down(self) -> None:
        self._up.clear()
        if self._upstream is not None:
            self._upstream.close()
            self._upstream = None

    async def _end(self) -> None:
        self._down()
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), self._options.stop_timeout_s)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class ModelServers:
    """The processes by key, each as long as somebody uses it."""

    def __init__(self, *, options: Options, logs: Path) -> None:
        self._options = options
        self._logs = logs
        self._servers: dict[str, ModelServer] = {}
        # by key, as long as somebody waits for the process
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._ending: dict[asyncio.Task[None], ModelServer] = {}
        self._starting = asyncio.Semaphore(options.parallel_starts)

    async def acquire(
        self, archive: Archive, environment: Mapping[str, str], *, timeout_s: float, wait: bool = True, replica: int = 0
    ) -> ModelServer:
        """Give the process of these bytes and this environment, ready; with `wait` False, maybe not yet ready.

        `replica` numbers processes of the same kind from 0.
        """
        key = server_key(archive, environment, replica)
        async with self._locks.setdefault(key, asyncio.Lock()):
            server = self._servers.get(key)
            if server is None:
                server = ModelServer(archive, environment, options=self._options, logs=self._logs, replica=replica)
                if wait:
                    async with self._starting:
                        await server.start(timeout_s)
                else:
                    server.start_later(timeout_s)
                self._servers[key] = server
            server.users += 1
            if wait:  # others may have started it, and it may be down
                try:
                    await server.ready(timeout_s)
                except BaseException:
                    await self.release([server])
                    raise
            return server

    async def release(self, servers: Iterable[ModelServer]) -> None:
        """Give processes back; the last one to do so ends it, even if it is cancelled while they drain."""
        ending: dict[asyncio.Task[None], ModelServer] = {}
        for server in servers:
            server.users -= 1
            if server.users == 0:
                for key in [key for key, held in self._servers.items() if held is server]:
                    del self._servers[key]
                ending[asyncio.create_task(server.retire())] = server
        self._ending |= ending
        for task in ending:
            task.add_done_callback(self._ending.pop)
        if ending:
            await asyncio.wait(ending)  # which cancels none of them

    async def stop(self) -> None:
        """End all processes, those that drain too."""
        servers, ending = [*self._servers.values(), *self._ending.values()], list(self._ending)
        self._servers.clear()
        await asyncio.gather(*(server.stop() for server in servers), *ending)
