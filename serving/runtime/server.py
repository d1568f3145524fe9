"""The life of one server: listen, unpack, load, warm, say so, serve, drain."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Protocol

import uvloop

from serving.errors import ServerError
from serving.protocol.archive import ModelFolder
from serving.runtime.address import BACKLOG, bind
from serving.runtime.http import Connection
from serving.runtime.loading import opened
from serving.runtime.member import Member
from serving.runtime.models import Models
from serving.runtime.routes import ModelApp
from serving.runtime.settings import ServerSettings
from serving.runtime.turn import Turn
from serving.spec.runtime import VllmRuntime

_SWEEP_S = 1.0
_SWITCH_S = 0.0005
_GC_THRESHOLD = 20_000
"""A request leaves no cycles; Python's 700 would look for some every few dozen requests."""
_DRAIN_POLL_S = 0.02


def run(settings: ServerSettings, *, on_ready: Callable[[dict[str, object]], None]) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` gets the port and the name and version of each model once all are warm.

    Raises:
        ArchiveError: the archive cannot be served.
        ServerError: nobody can listen there, or there is nothing to serve.

    """
    with ExitStack() as stack:
        member = settings.member
        listener = stack.enter_context(bind(settings.host, settings.port, shared=member is not None))
        if member is None or not member.late:
            listener.listen(BACKLOG)
        # below one folder, so that nothing is left whatever the end is like
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streamhub-models-")))
        folder = _opened(settings, scratch)
        # a worker that has its result waits so long for a busy loop to let it in
        sys.setswitchinterval(_SWITCH_S)
        uvloop.run(_serve(folder, settings, scratch, listener, on_ready))


def _opened(settings: ServerSettings, scratch: Path) -> ModelFolder | None:
    if settings.archive is None:
        if settings.model_repository is None and settings.models_root is None:
            raise ServerError(
                "models: got none; allowed an archive, a repository or a root of models; "
                "name one with --archive, --model-repository or --models-root"
            )
        return None
    folder = opened(settings.archive, settings.workdir or scratch / "model", deadline_ms=settings.deadline_ms)
    if settings.model_name not in {None, folder.served.name}:
        raise ServerError(
            f"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME: got {settings.model_name!r}; allowed {folder.served.name!r}, the "
            f"model of {settings.archive.name}; correct or remove the variable"
        )
    return folder


async def _serve(
    folder: ModelFolder | None,
    settings: ServerSettings,
    scratch: Path,
    listener: socket.socket,
    on_ready: Callable[[dict[str, object]], None],
) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    turn = Turn(loop)
    models = _models(settings, folder, scratch, loop, turn, stop=stopped.set)
    app = models.app
    member = Member(settings.member, app, stop=stopped.set) if settings.member is not None else None
    late = settings.member is not None and settings.member.late
    server = await loop.create_server(
        lambda: Connection(app, loop, turn.received), sock=listener, backlog=BACKLOG, start_serving=not late
    )
    sweeper = asyncio.ensure_future(_sweep(app))
    loading = asyncio.ensure_future(models.load())
    waiting = asyncio.ensure_future(stopped.wait())
    await asyncio.wait((loading, waiting), return_when=asyncio.FIRST_COMPLETED)
    try:
        if not stopped.is_set():
            ready = loading.result()
            gc.collect()
            gc.freeze()  # what lives as long as the server need not be looked at again
            gc.set_threshold(_GC_THRESHOLD)
            app.repository.opened = member is None or late  # else when the other processes are warm too
            on_ready({"port": listener.getsockname()[1], **ready})
            await server.start_serving()
            await waiting
        app.draining = True
        # what the kernel holds is accepted and read first, one connection an iteration: closing would reset it
        for _ in range(BACKLOG):
            await asyncio.sleep(0)
        server.close()
        await _drain(app, settings.limits.drain_s)
    finally:
        sweeper.cancel()
        loading.cancel()
        if member is not None:
            member.close()
        app.journal.close()
        await models.close()


class _Models(Protocol):
    """What a server serves."""

    @property
    def app(self) -> ModelApp:
        """Its routes."""
        ...

    async def load(self) -> dict[str, object]:
        """Become ready; gives what to say of it."""
        ...

    async def close(self) -> None:
        """Free it; raises why it ended, if it did so by itself."""
        ...


def _models(
    settings: ServerSettings,
    folder: ModelFolder | None,
    scratch: Path,
    loop: asyncio.AbstractEventLoop,
    turn: Turn,
    *,
    stop: Callable[[], object],
) -> _Models:
    if folder is None or not isinstance(folder.served.runtime, VllmRuntime):
        return Models(settings, folder, scratch, loop, turn)
    if settings.member is not None:
        raise ServerError("--processes: got several with a vLLM archive; allowed 1; vLLM has processes of its own")
    from serving.runtime.vllm import VllmModel  # noqa: PLC0415 - its HTTP client is there where vLLM is

    return VllmModel(settings, folder, stop=stop)


async def _sweep(app: ModelApp) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        now_s = monotonic()
        for connection in tuple(app.connections):
            connection.expire(now_s)


async def _drain(app: ModelApp, drain_s: float) -> None:
    until_s = monotonic() + drain_s
    while not app.idle and monotonic() < until_s:
        for connection in tuple(app.connections):
            if connection.idle:
                connection.close()
        await asyncio.sleep(_DRAIN_POLL_S)
