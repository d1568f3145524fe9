"""From an unpacked archive to a warm model: what this server runs, within which caps, on which sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from serving.batching.policy import Caps
from serving.batching.service_times import ServiceTimes
from serving.errors import ArchiveError, InferenceError
from serving.protocol import codec
from serving.protocol.archive import ModelFolder, open_folder, unpack
from serving.protocol.served import ServedModel
from serving.protocol.tensors import DTYPES, Array
from serving.runtime.checks import RequestCheck
from serving.runtime.runner import Runner, blank
from serving.runtime.threads import AskedThreads, tuned
from serving.spec.runtime import TritonRuntime


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A model that is warm, and how long its batches take."""

    runner: Runner
    times: ServiceTimes
    workers: int


def opened(source: Path, workdir: Path, *, deadline_ms: float | None = None) -> ModelFolder:
    """Read a model from an archive, which is unpacked to `workdir`, or from the folder that it was unpacked to before.

    Raises:
        ArchiveError: it is not what its container needs.

    """
    folder = open_folder(source) if source.is_dir() else unpack(source, workdir)
    if deadline_ms is None:
        return folder
    return replace(folder, served=replace(folder.served, deadline_ms=deadline_ms))


def caps_of(served: ServedModel) -> Caps:
    """Give the limits of a model's batches.

    Raises:
        ArchiveError: this server does not run such a model.

    """
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


def load(folder: ModelFolder, caps: Caps, *, threads: AskedThreads) -> Loaded:
    """Load and warm a model; it takes as long as the model is large, so not on the loop.

    Raises:
        ArchiveError: its file cannot be loaded, or its sample does not run.

    """
    from serving.runtime.model import OnnxModel  # noqa: PLC0415 - ONNX Runtime takes longer to import than the rest

    served = folder.served
    sample = blank(served.inputs) if folder.sample is None else _sample(folder, folder.sample, caps)
    try:
        runner, times, plan = tuned(
            lambda plan: OnnxModel(folder.model, served, threads=plan),
            sample,
            max_rows=caps.max_rows,
            asked=threads.of(served.runtime),
        )
    except InferenceError as error:
        raise ArchiveError(f"{served.name} {served.version}: its sample does not run: {error}") from None
    return Loaded(runner, times, plan.workers)


def _sample(folder: ModelFolder, path: Path, caps: Caps) -> list[Array]:
    try:
        request = codec.decode_request(path.read_bytes(), content_type=codec.JSON_TYPE)
        return RequestCheck(folder.served, max_rows=caps.most_rows).arrays(request)
    except InferenceError as error:
        raise ArchiveError(
            f"{folder.served.name} {folder.served.version}: {path.relative_to(folder.root)}: {error}"
        ) from None


def _refused(served: ServedModel, got: str, where: str) -> ArchiveError:
    return ArchiveError(
        f"{served.name} {served.version}: got {got}; allowed triton models with an ONNX graph and batches; {where}"
    )
