"""Models that come and go while the server serves: loaded beside the loop, within a bound of memory.

A model that has to leave for another one keeps its name and its files: the next request for it loads it again. So
SageMaker, which is told that a model is loaded, is not told otherwise by an answer of 404.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Protocol

from serving.batching.policy import Caps
from serving.errors import AlreadyLoadedError, HostingError, NoRoomError, NotLoadedError, StreamHubError
from serving.protocol.archive import ModelFolder
from serving.runtime.loading import Loaded, caps_of, load, opened
from serving.runtime.memory import Held, give_back, leaving, size_of
from serving.runtime.repository import Hosted, Repository, State
from serving.runtime.threads import AskedThreads

_UNLOAD_S = 350.0
"""SageMaker waits 360 s for an unload; Triton's frontend stops after these (server, src/sagemaker_server.cc)."""

_POLL_S = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class _Files:
    """What a model was loaded from, to load it again; `workdir` is ours to remove."""

    source: Path
    folder: ModelFolder
    caps: Caps
    size_bytes: int
    workdir: Path | None


class Serve(Protocol):
    """What lets a model answer."""

    def __call__(self, hosted: Hosted, loaded: Loaded, *, caps: Caps) -> None:
        """Let it."""
        ...


class Residency:
    """Loads and unloads the models of a repository; all on the loop, one load at a time."""

    def __init__(
        self,
        repository: Repository,
        *,
        loop: AbstractEventLoop,
        serve: Serve,
        scratch: Path,
        limit_bytes: int,
        threads: AskedThreads,
        deadline_ms: float | None = None,
    ) -> None:
        self.repository = repository
        self._loop = loop
        self._serve = serve
        self._limit_bytes = limit_bytes
        self._scratch = scratch
        self._threads = threads
        self._deadline_ms = deadline_ms
        self._lock = asyncio.Lock()
        self._files: dict[Hosted, _Files] = {}
        self._expected: set[str] = set()
        self._waking: dict[Hosted, asyncio.Task[None]] = {}

    def source(self, name: str) -> Path:
        """Say where a model was loaded from.

        Raises:
            NotLoadedError: there is none of that name.

        """
        hosted = self.repository.get(name)
        if hosted is None or hosted not in self._files:
            raise _not_loaded(name)
        return self._files[hosted].source

    @property
    def loading(self) -> frozenset[str]:
        """Models on their way."""
        return frozenset(self._expected)

    async def load(self, name: str, source: Path, *, again: bool = False) -> None:
        """Load an archive or an unpacked folder under a name; `again`: in place of the one there, once it is warm.

        Raises:
            AlreadyLoadedError: the name is taken.
            NoRoomError: it does not fit, even without the models that nobody uses now.
            ArchiveError: it is nothing that this server runs.

        """
        if name in self._expected or (self.repository.get(name) is not None and not again):
            raise AlreadyLoadedError(
                f"model {name!r}: got a name that is loaded already; allowed a new one; unload that model first"
            )
        self._expected.add(name)
        try:
            async with self._lock:
                files, hosted = await self._open(name, source)
                try:
                    await self._fill(hosted, files)
                except BaseException:
                    await asyncio.to_thread(_discard, files.workdir)
                    raise
        except StreamHubError as error:
            self.repository.failed[name] = str(error)
            raise
        finally:
            self._expected.discard(name)
        self._files[hosted] = files
        before = self.repository.add(hosted)
        if before is not None:
            await self._finish(before)

    async def unload(self, name: str) -> None:
        """Forget a model; returns once it has answered what it was asked.

        Raises:
            NotLoadedError: there is none of that name.

        """
        hosted = self.repository.take(name)
        if hosted is None:
            raise _not_loaded(name)
        await self._finish(hosted)

    def wake(self, hosted: Hosted, then: Callable[[HostingError | None], None]) -> bool:
        """Load a model again that had to leave, and call `then`; False: it did not leave, it is on its way or gone."""
        task = self._waking.get(hosted)
        if task is None:
            if hosted not in self._files or hosted.batcher is not None:
                return False
            task = self._waking[hosted] = self._loop.create_task(self._wake(hosted))
            task.add_done_callback(lambda _: self._waking.pop(hosted))
        task.add_done_callback(lambda done: then(_why(done, hosted)))
        return True

    async def _wake(self, hosted: Hosted) -> None:
        async with self._lock:
            await self._fill(hosted, self._files[hosted])

    async def _open(self, name: str, source: Path) -> tuple[_Files, Hosted]:
        files = await asyncio.to_thread(_files, name, source, self._scratch, deadline_ms=self._deadline_ms)
        return files, Hosted(name, files.folder.served, max_rows=files.caps.most_rows)

    async def _fill(self, hosted: Hosted, files: _Files) -> None:
        """Make room, load and become ready."""
        await self._make_room(hosted.name, files.size_bytes)
        hosted.state, hosted.reason = State.LOADING, ""
        hosted.used_s = monotonic()
        try:
            loaded = await asyncio.to_thread(load, files.folder, files.caps, threads=self._threads)
        except StreamHubError as error:
            hosted.state, hosted.reason = State.UNAVAILABLE, str(error)
            raise
        self._serve(hosted, loaded, caps=files.caps)

    async def _make_room(self, name: str, needed_bytes: int) -> None:
        here = {hosted.name: hosted for hosted in self._files if hosted.batcher is not None}
        held = [Held(each.name, self._files[each].size_bytes, each.used_s, each.idle) for each in here.values()]
        names = leaving(held, needed_bytes=needed_bytes, limit_bytes=self._limit_bytes)
        if names is None:
            busy = ", ".join(each.name for each in held if not each.idle) or "none"
            raise NoRoomError(
                f"model {name!r}: got a need of {needed_bytes >> 20} MiB; allowed {self._limit_bytes >> 20} MiB "
                f"for all models together (busy now: {busy}); unload some, or use a larger instance"
            )
        for each in names:
            runner = here[each].detach(State.UNAVAILABLE, "left for another model; the next request loads it again")
            if runner is not None:
                await asyncio.to_thread(runner.close)
        if names:
            await asyncio.to_thread(give_back)

    async def _finish(self, hosted: Hosted) -> None:
        """Wait until a model has answered what it was asked, and free it."""
        hosted.state = State.UNLOADING
        self.repository.leaving.add(hosted)
        until_s = monotonic() + _UNLOAD_S
        try:
            # the batcher tells nobody that it is idle: it would do so in every request
            while (not hosted.idle or hosted in self._waking) and monotonic() < until_s:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_S)
            runner = hosted.detach(State.UNAVAILABLE, "unloaded")
            if runner is not None:
                await asyncio.to_thread(runner.close)
            files = self._files.pop(hosted, None)
            await asyncio.to_thread(_discard, files.workdir if files is not None else None)
        finally:
            self.repository.leaving.discard(hosted)
        del runner
        await asyncio.to_thread(give_back)


def _why(done: asyncio.Task[None], hosted: Hosted) -> HostingError | None:
    error = None if done.cancelled() else done.exception()
    if error is None or isinstance(error, HostingError):
        return error
    return HostingError(f"model {hosted.name!r}: cannot be loaded again: {error}")


def _files(name: str, source: Path, scratch: Path, *, deadline_ms: float | None) -> _Files:
    workdir = None if source.is_dir() else Path(tempfile.mkdtemp(dir=scratch))
    try:
        folder = opened(source, (workdir or source) / "model", deadline_ms=deadline_ms)
        folder = replace(folder, served=replace(folder.served, name=name))
        return _Files(source, folder, caps_of(folder.served), size_of(folder.root), workdir)
    except BaseException:
        _discard(workdir)
        raise


def _not_loaded(name: str) -> NotLoadedError:
    return NotLoadedError(f"model {name!r}: got a name that is not loaded; allowed a loaded model; load it first")


def _discard(workdir: Path | None) -> None:
    if workdir is not None:
        shutil.rmtree(workdir, ignore_errors=True)
