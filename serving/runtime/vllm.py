"""A vLLM archive: vLLM's own server as a child of this one, which answers health checks and hands requests on.

Flags follow from the archive; `SM_VLLM_X` variables are flags `--x` that come on top, as in AWS's container (*vLLM
inference containers*, AWS Deep Learning Containers), so that what runs on GPUs there starts on a small machine here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from serving.errors import ServerError
from serving.protocol.archive import ModelFolder
from serving.protocol.served import ServedModel
from serving.runtime.journal import Journal
from serving.runtime.repository import Repository
from serving.runtime.settings import ServerSettings
from serving.runtime.upstream import Upstream
from serving.spec.runtime import VllmRuntime

MODULE = "vllm.entrypoints.openai.api_server"
PYTHON_NAME = "STREAMHUB_VLLM_PYTHON"
"""The interpreter that has vLLM, where it is another than this one."""

_PREFIX = "SM_VLLM_"
_POLL_S = 0.25
_HEALTH_S = 2.0
_HEALTH_TIMEOUT_S = 1.5
_SILENCE_S = 480.0
"""SageMaker's limit of a streamed answer (*InvokeEndpointWithResponseStream*); nobody waits longer for a piece."""

_END_S = 10.0
"""From SIGTERM to SIGKILL of the child; requests were answered before, and SageMaker kills us after 30 s in all."""


def flags(
    served: ServedModel, runtime: VllmRuntime, folder: Path, *, port: int, environ: Mapping[str, str]
) -> list[str]:
    """Give the command line of vLLM's server after the module's name."""
    wanted = {
        "model": str(folder),
        "served-model-name": served.name,
        "tensor-parallel-size": str(runtime.tensor_parallel),
        "max-model-len": str(runtime.max_model_len),
        "gpu-memory-utilization": f"{runtime.gpu_memory_utilization:g}",
        "max-num-seqs": str(runtime.max_num_seqs),
        "dtype": runtime.dtype,
    }
    for name, value in environ.items():
        if name.startswith(_PREFIX) and name != f"{_PREFIX}MODEL":
            wanted[name.removeprefix(_PREFIX).lower().replace("_", "-")] = value
    wanted |= {"host": "127.0.0.1", "port": str(port)}
    return [part for name, value in wanted.items() for part in _flag(name, value)]


def _flag(name: str, value: str) -> Sequence[str]:
    """AWS's entry gives a switch no value: true is the flag alone, false leaves it out."""
    if value.lower() in {"true", "false"}:
        return [f"--{name}"] if value.lower() == "true" else []
    return [f"--{name}", value]


class VllmModel:
    """The child and the routes to it; `stop` is called when it ends by itself.

    Raises:
        ServerError: vLLM is not installed.

    """

    def __init__(self, settings: ServerSettings, folder: ModelFolder, *, stop: Callable[[], object]) -> None:
        self._settings = settings
        self._folder = folder
        self._stop = stop
        self.app = Upstream(Repository(), limits=settings.limits, journal=Journal(slow_ms=settings.slow_ms))
        self._child: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._failure: ServerError | None = None

    async def load(self) -> dict[str, object]:
        """Start the child and wait until it answers; gives name and version.

        Raises:
            ServerError: vLLM is not installed, or ended before it was ready.

        """
        served = self._folder.served
        runtime = served.runtime
        assert isinstance(runtime, VllmRuntime)  # noqa: S101 - or it would not be here
        python = os.environ.get(PYTHON_NAME, sys.executable)
        await _need_vllm(python)
        port = free_port(self._settings.safe_ports)
        command = [python, "-m", MODULE, *flags(served, runtime, self._folder.root, port=port, environ=os.environ)]
        # our stdout is for whoever started us; a group of its own, since vLLM has children too
        self._child = child = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True
        )
        self.app.client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            timeout=httpx.Timeout(_SILENCE_S, connect=_HEALTH_TIMEOUT_S),
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
        )
        while not await self._answers():
            if child.returncode is not None:
                raise ServerError(f"vLLM: ended with status {child.returncode} before it was ready; its log says why")
            await asyncio.sleep(_POLL_S)
        self.app.healthy = True
        self._watching = asyncio.ensure_future(self._watch(child))
        return {"name": served.name, "version": served.version}

    async def close(self) -> None:
        """End the child, and say why it ended before.

        Raises:
            ServerError: it ended by itself.

        """
        if self._watching is not None:
            self._watching.cancel()
        if self._child is not None:
            await _ended(self._child)
            await self.app.client.aclose()
        if self._failure is not None:
            raise self._failure

    async def _answers(self) -> bool:
        try:
            answer = await self.app.client.get("/health", timeout=_HEALTH_TIMEOUT_S)
        except httpx.HTTPError:
            return False
        return answer.status_code == httpx.codes.OK

    async def _watch(self, child: asyncio.subprocess.Process) -> None:
        """Keep up with the child's health until it ends."""
        ending = asyncio.ensure_future(child.wait())
        while not ending.done():
            self.app.healthy = await self._answers()
            await asyncio.wait([ending], timeout=_HEALTH_S)
        self.app.healthy = False
        self._failure = ServerError(f"vLLM: ended by itself with status {child.returncode}; its log says why")
        self._stop()


async def _need_vllm(python: str) -> None:
    """Look for the package, without importing it: that takes many seconds."""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    try:
        found = await (await asyncio.create_subprocess_exec(python, "-c", look)).wait() == 0
    except OSError:
        found = False
    if not found:
        raise ServerError(
            f"vLLM: got none in {python}; allowed an interpreter that has it; install vllm there, or name another "
            f"interpreter in {PYTHON_NAME}"
        )


async def _ended(child: asyncio.subprocess.Process) -> None:
    """Ask the child to end, and end what is left of its group."""
    if child.returncode is None:
        child.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), _END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    await child.wait()


def free_port(safe_ports: tuple[int, int] | None) -> int:
    """Give a port that nobody has now, of those that SageMaker leaves to a container if it names any.

    Raises:
        ServerError: all of them are taken.

    """
    first, last = safe_ports or (0, 0)
    for port in range(first, last + 1):
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            return int(candidate.getsockname()[1])
    raise ServerError(f"SAGEMAKER_SAFE_PORT_RANGE: got {first}-{last}, all taken; allowed a free one; widen the range")
