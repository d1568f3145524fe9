"""The life of one server: unpack, listen, load, warm, say so, serve, drain."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import monotonic

import uvloop

from serving.batching.policy import Caps, ServiceTimes
from serving.errors import ArchiveError, InferenceError, ServerError
from serving.protocol import codec
from serving.protocol.archive import ModelFolder, unpack
from serving.protocol.served import ServedModel
from serving.protocol.tensors import DTYPES, Array
from serving.runtime.batcher import Batcher
from serving.runtime.checks import RequestCheck
from serving.runtime.http import Connection
from serving.runtime.model import OnnxModel, blank
from serving.runtime.routes import ModelApp
from serving.runtime.settings import ServerSettings
from serving.spec.runtime import TritonRuntime

_BACKLOG = 2048
_SWEEP_S = 1.0
_SWITCH_S = 0.0005
_GC_THRESHOLD = 20_000
"""A request leaves no cycles; Python's 700 would look for some every few dozen requests."""
_DRAIN_POLL_S = 0.02


def run(settings: ServerSettings, *, on_ready: Callable[[dict[str, object]], None]) -> None:
    """Serve an archive until SIGTERM or SIGINT; `on_ready` gets port, name and version once the model is warm.

    Raises:
        ArchiveError: the archive cannot be served.
        ServerError: nobody can listen there.

    """
    with ExitStack() as stack:
        listener = stack.enter_context(listen(settings.host, settings.port))
        folder = _unpacked(settings, stack)
        # a worker that has its result waits so long for a busy loop to let it in
        sys.setswitchinterval(_SWITCH_S)
        uvloop.run(_serve(folder, settings, listener, on_ready))


def listen(host: str, port: int) -> socket.socket:
    """Bind the address.

    Raises:
        ServerError: it is taken, or not of this machine.

    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ServerError(
            f"address: got {host}:{port} ({error}); allowed a free port of this machine (0 chooses one); "
            f"stop what listens there or choose another with --port"
        ) from None


def _unpacked(settings: ServerSettings, stack: ExitStack) -> ModelFolder:
    if settings.workdir is None:
        workdir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streamhub-model-"))) / "model"
    else:
        workdir = settings.workdir
    folder = unpack(settings.archive, workdir)
    if settings.deadline_ms is None:
        return folder
    return replace(folder, served=replace(folder.served, deadline_ms=settings.deadline_ms))


async def _serve(
    folder: ModelFolder,
    settings: ServerSettings,
    listener: socket.socket,
    on_ready: Callable[[dict[str, object]], None],
) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    caps = _caps(folder)
    app = ModelApp(folder.served, limits=settings.limits, max_rows=caps.max_rows)
    server = await loop.create_server(lambda: Connection(app, loop), sock=listener)
    sweeper = asyncio.ensure_future(_sweep(app))
    loading = asyncio.ensure_future(asyncio.to_thread(_load, folder, settings, caps))
    waiting = asyncio.ensure_future(stopped.wait())
    await asyncio.wait((loading, waiting), return_when=asyncio.FIRST_COMPLETED)
    batcher = None
    try:
        if not stopped.is_set():
            model, times = loading.result()
            batcher = Batcher(model.run, caps=caps, times=times, inline=model.steady, loop=loop, metrics=app.metrics)
            gc.collect()
            gc.freeze()  # what lives as long as the server need not be looked at again
            gc.set_threshold(_GC_THRESHOLD)
            app.serve(batcher)
            port = listener.getsockname()[1]
            on_ready({"port": port, "name": folder.served.name, "version": folder.served.version})
            await waiting
        server.close()
        await _drain(app, settings.limits.drain_s)
    finally:
        sweeper.cancel()
        if batcher is not None:
            batcher.close()


def _caps(folder: ModelFolder) -> Caps:
    served = folder.served
    runtime = served.runtime
    if not isinstance(runtime, TritonRuntime):
        raise _refused(served, f"a {runtime.kind} model", f"it runs in its own container ({runtime.kind}), not here")
    if runtime.backend != "onnxruntime":
        raise _refused(served, f"the Triton backend {runtime.backend}", "it runs in the Triton container, not here")
    if runtime.max_batch_size == 0:
        raise _refused(served, "a model without batches", "it runs in the Triton container, not here")
    if ragged := [tensor.name for tensor in served.inputs if tensor.ragged]:
        raise _refused(served, f"the ragged input {ragged[0]}", "it runs in the Triton container, not here")
    if unknown := [tensor for tensor in (*served.inputs, *served.outputs) if tensor.dtype not in DTYPES]:
        raise _refused(served, f"{unknown[0].name} of {unknown[0].dtype}", "it runs in the Triton container, not here")
    return Caps(max_rows=runtime.max_batch_size, max_waiting=runtime.max_queue_size, workers=runtime.instances)


def _refused(served: ServedModel, got: str, where: str) -> ArchiveError:
    return ArchiveError(
        f"{served.name} {served.version}: got {got}; allowed triton models with an ONNX graph and batches; {where}"
    )


def _load(folder: ModelFolder, settings: ServerSettings, caps: Caps) -> tuple[OnnxModel, ServiceTimes]:
    served = folder.served
    model = OnnxModel(folder.model, served, threads=settings.threads)
    sample = blank(served.inputs) if folder.sample is None else _sample(folder, folder.sample, caps)
    try:
        return model, model.warm_up(sample, max_rows=caps.max_rows)
    except InferenceError as error:
        raise ArchiveError(f"{settings.archive.name}: its sample does not run: {error}") from None


def _sample(folder: ModelFolder, path: Path, caps: Caps) -> list[Array]:
    try:
        request = codec.decode_request(path.read_bytes(), content_type=codec.JSON_TYPE)
        return RequestCheck(folder.served, max_rows=caps.max_rows).arrays(request)
    except InferenceError as error:
        raise ArchiveError(
            f"{folder.served.name} {folder.served.version}: {path.relative_to(folder.root)}: {error}"
        ) from None


async def _sweep(app: ModelApp) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        now_s = monotonic()
        for connection in tuple(app.connections):
            connection.expire(now_s)


async def _drain(app: ModelApp, drain_s: float) -> None:
    app.draining = True
    until_s = monotonic() + drain_s
    while not app.idle and monotonic() < until_s:
        for connection in tuple(app.connections):
            if connection.idle:
                connection.close()
        await asyncio.sleep(_DRAIN_POLL_S)
