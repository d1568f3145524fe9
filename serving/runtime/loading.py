"""From an unpacked archive to a warm model: what this server runs, within which caps, on which sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from serving.batching.policy import Caps
from serving.batching.service_times import ServiceTimes
from serving.errors import ArchiveError, InferenceError
from serving.protocol import codec
from serving.protocol.archive import ModelFolder, open_folder, unpack
from serving.protocol.served import ServedModel
from serving.protocol.tensors import Array
from serving.runtime.cgroup import free_bytes
from serving.runtime.checks import RequestCheck
from serving.runtime.memory import size_of
from serving.runtime.runner import Runner, blank
from serving.runtime.threads import AskedThreads, ThreadPlan, tuned
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import DType

_BACKENDS = frozenset({"onnxruntime", "python", "ensemble"})


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
    """Give the limits of a model's batches; one without a batch dimension takes one request at a time.

    Raises:
        ArchiveError: this server does not run such a model.

    """
    runtime = served.runtime
    if not isinstance(runtime, TritonRuntime):
        raise _refused(served, f"a {runtime.kind} model", f"it runs in its own container ({runtime.kind}), not here")
    for backend in (runtime.backend, *(step.backend for step in runtime.steps)):
        if backend not in _BACKENDS:
            raise _refused(served, f"the Triton backend {backend}", "it runs in the Triton container, not here")
    if ragged := [tensor.name for tensor in served.inputs if tensor.ragged]:
        raise _refused(served, f"the ragged input {ragged[0]}", "it runs in the Triton container, not here")
    if unknown := [tensor for tensor in (*served.inputs, *served.outputs) if tensor.dtype is DType.BF16]:
        raise _refused(served, f"{unknown[0].name} of {unknown[0].dtype}", "it runs in the Triton container, not here")
    rows = max(1, runtime.max_batch_size)
    return Caps(max_rows=rows, max_waiting=runtime.max_queue_size, workers=runtime.instances)


def load(folder: ModelFolder, caps: Caps, *, threads: AskedThreads) -> Loaded:
    """Load and warm a model; it takes as long as the model is large, so not on the loop.

    Raises:
        ArchiveError: its file cannot be loaded, or its sample does not run.

    """
    served, runtime = folder.served, folder.served.runtime
    assert isinstance(runtime, TritonRuntime)  # noqa: S101 - or it has no caps
    batched = runtime.max_batch_size > 0
    sample = blank(served.inputs, batched=batched) if folder.sample is None else _sample(folder, folder.sample, caps)
    asked = threads.of(runtime)
    try:
        if runtime.backend == "onnxruntime":
            make = partial(_onnx, folder.model, served, batched=batched)
            room = partial(_has_room, folder)
            model, times, plan = tuned(make, sample, max_rows=caps.max_rows, asked=asked, room=room)
            return Loaded(model, times, plan.workers)
        runner = _runner(folder, runtime, asked)
        return Loaded(runner, _warmed(runner, sample, caps), runtime.instances)
    except InferenceError as error:
        raise ArchiveError(f"{served.name} {served.version}: its sample does not run: {error}") from None


def _has_room(folder: ModelFolder) -> bool:
    return free_bytes() >= size_of(folder.root)


def _warmed(runner: Runner, sample: Sequence[Array], caps: Caps) -> ServiceTimes:
    try:
        return runner.warm_up(sample, max_rows=caps.max_rows)
    except BaseException:
        runner.close()
        raise


def _runner(folder: ModelFolder, runtime: TritonRuntime, asked: AskedThreads) -> Runner:
    if runtime.backend == "python":
        return _python(folder, folder.served, folder.model, runtime)
    return _ensemble(folder, runtime, asked)


def _ensemble(folder: ModelFolder, runtime: TritonRuntime, asked: AskedThreads) -> Runner:
    from serving.runtime.ensemble import Ensemble, Step  # noqa: PLC0415 - as below

    served, batched = folder.served, runtime.max_batch_size > 0
    # the steps of one request follow each other, so each may have the cores; a spec says so if not
    threads = ThreadPlan(intra_op=asked.intra_op or max(1, asked.cores - 1))
    steps: list[Step] = []
    try:
        for spec in runtime.steps:
            part = replace(served, name=spec.name, inputs=spec.inputs, outputs=spec.outputs)
            version = folder.root / spec.name / "1"
            if spec.backend == "python":
                runner = _python(folder, part, version / "model.py", runtime, instances=spec.instances)
            else:
                runner = _onnx(version / "model.onnx", part, threads, batched=batched)
            steps.append(Step.of(spec, runner, batched=batched))
    except BaseException:
        for step in steps:
            step.runner.close()
        raise
    return Ensemble(served, steps)


def _onnx(path: Path, served: ServedModel, threads: ThreadPlan, *, batched: bool) -> Runner:
    from serving.runtime.model import OnnxModel  # noqa: PLC0415 - ONNX Runtime takes longer to import than the rest

    return OnnxModel(path, served, threads=threads, batched=batched)


def _python(
    folder: ModelFolder, served: ServedModel, file: Path, runtime: TritonRuntime, *, instances: int | None = None
) -> Runner:
    from serving.runtime.python_model import PythonModel, PythonPart  # noqa: PLC0415 - few archives need it

    return PythonModel(
        PythonPart(
            name=served.name,
            version=folder.served.version,
            file=file,
            inputs=served.inputs,
            outputs=served.outputs,
            max_rows=runtime.max_batch_size,
            instances=instances or runtime.instances,
        )
    )


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
        f"{served.name} {served.version}: got {got}; allowed triton models of ONNX graphs and Python; {where}"
    )
