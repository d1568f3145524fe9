"""Triton's `config.pbtxt` as the protobuf message it is: made, written, read and compared (ADR 0016).

The schema is NVIDIA's own (`tritonclient`), the text format protobuf's. Sources of what a field means:
triton-inference-server/common, model_config.proto; server, docs/user_guide/{model_configuration,ragged_batching}.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as schema

from serving.errors import PackagingError
from serving.protocol.served import ServedModel
from serving.protocol.tensors import Tensor
from serving.spec.runtime import BatchInputSpec, EnsembleStepSpec, StepBackend, TritonRuntime
from serving.spec.tensors import DType, TensorSpec

VERSION = 1
"""The one version folder of an archive: another version of a model is another archive."""

ENVIRONMENT = "environment.tar.gz"
"""A conda-pack archive beside a Python model's `model.py`: the interpreter and packages that it runs in."""

_SCALAR_DIMS = (1,)
_MICROSECONDS_PER_MS = 1000
_PLATFORMS = {"model.onnx": "onnxruntime_onnx", "model.pt": "pytorch_libtorch", "model.pt2": "torch_aoti"}
_BATCH_KINDS = {
    "element-count": schema.BatchInput.BATCH_ELEMENT_COUNT,
    "accumulated-element-count": schema.BatchInput.BATCH_ACCUMULATED_ELEMENT_COUNT,
    "accumulated-element-count-with-zero": schema.BatchInput.BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO,
}
_KINDS = {"cpu": schema.ModelInstanceGroup.KIND_CPU, "gpu": schema.ModelInstanceGroup.KIND_GPU}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """How requests wait and meet; `max_batch_size` 0: they never meet."""

    max_batch_size: int
    max_queue_delay_ms: float
    preferred_batch_sizes: tuple[int, ...]
    max_queue_size: int
    deadline_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonModel:
    """One folder of a model repository that a backend runs; `file` is what lies in its version folder."""

    name: str
    backend: StepBackend
    file: str
    device: Literal["cpu", "gpu"]
    instances: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batching: Batching
    batch_inputs: tuple[BatchInputSpec, ...] = ()
    intra_op_threads: int = 0
    environment: bool = False
    warmup: tuple[Tensor, ...] | None = None
    """One row of each input (the whole tensor where there are no batches); () for zeros, None for no warm-up."""

    @classmethod
    def whole(cls, served: ServedModel, runtime: TritonRuntime, *, file: str) -> TritonModel:
        """Take a model of one backend from its spec."""
        if runtime.backend == "ensemble":
            raise TypeError(f"{served.name} is an ensemble")
        return cls(
            name=served.name,
            backend=runtime.backend,
            file=file,
            device=runtime.device,
            instances=runtime.instances,
            inputs=served.inputs,
            outputs=served.outputs,
            batching=_batching_of(served, runtime),
            batch_inputs=runtime.batch_inputs,
            intra_op_threads=runtime.intra_op_threads,
        )

    @classmethod
    def step(cls, served: ServedModel, runtime: TritonRuntime, step: EnsembleStepSpec, *, file: str) -> TritonModel:
        """Take one step of an ensemble: steps that gain from batches share the delay, Python waits for nobody."""
        waiting = sum(each.backend != "python" for each in runtime.steps)
        delay_ms = 0.0 if step.backend == "python" else runtime.max_queue_delay_ms / waiting
        return cls(
            name=step.name,
            backend=step.backend,
            file=file,
            device=step.device,
            instances=step.instances,
            inputs=step.inputs,
            outputs=step.outputs,
            batching=replace(_batching_of(served, runtime), max_queue_delay_ms=delay_ms),
            intra_op_threads=runtime.intra_op_threads if step.backend == "onnxruntime" else 0,
        )


def _batching_of(served: ServedModel, runtime: TritonRuntime) -> Batching:
    return Batching(
        max_batch_size=runtime.max_batch_size,
        max_queue_delay_ms=runtime.max_queue_delay_ms,
        preferred_batch_sizes=runtime.preferred_batch_sizes,
        max_queue_size=runtime.max_queue_size,
        deadline_ms=served.deadline_ms,
    )


def model_config(model: TritonModel) -> Any:  # noqa: ANN401 - generated messages have no types
    """Give the `ModelConfig` of one backend's model, with nothing that matters left to Triton's defaults.

    A request that has waited as long as its deadline is refused: nobody would read its answer.
    """
    config = schema.ModelConfig(
        name=model.name,
        backend=model.backend,
        platform=_PLATFORMS.get(model.file, ""),
        max_batch_size=model.batching.max_batch_size,
        input=[_tensor(schema.ModelInput, spec) for spec in model.inputs],
        output=[_tensor(schema.ModelOutput, spec) for spec in model.outputs],
        batch_input=[_batch_input(spec) for spec in model.batch_inputs],
        instance_group=[schema.ModelInstanceGroup(kind=_KINDS[model.device], count=model.instances)],
        version_policy=_only_version(),
        model_warmup=list(_warmups(model)),
    )
    if model.batching.max_batch_size:
        config.dynamic_batching.CopyFrom(_dynamic_batching(model.batching))
    for key, value in _parameters(model):
        config.parameters[key].string_value = value
    return config


def ensemble_config(served: ServedModel, runtime: TritonRuntime) -> Any:  # noqa: ANN401 - as above
    """Give the `ModelConfig` of an ensemble: which tensor of which step is which tensor of the whole."""
    steps = [
        schema.ModelEnsembling.Step(
            model_name=step.name,
            model_version=-1,
            input_map={tensor.name: step.reads.get(tensor.name, tensor.name) for tensor in step.inputs},
            output_map={tensor.name: step.writes.get(tensor.name, tensor.name) for tensor in step.outputs},
        )
        for step in runtime.steps
    ]
    return schema.ModelConfig(
        name=served.name,
        platform="ensemble",
        max_batch_size=runtime.max_batch_size,
        input=[_tensor(schema.ModelInput, spec) for spec in served.inputs],
        output=[_tensor(schema.ModelOutput, spec) for spec in served.outputs],
        version_policy=_only_version(),
        ensemble_scheduling=schema.ModelEnsembling(step=steps),
    )


def to_text(config: Any) -> bytes:  # noqa: ANN401 - as above
    """Write a message as `config.pbtxt`: fields by number, maps by key, ASCII; equal messages give equal bytes."""
    text: str = text_format.MessageToString(config, as_utf8=False)
    return text.encode("ascii")


def from_text(data: bytes) -> Any:  # noqa: ANN401 - as above
    """Read a `config.pbtxt`.

    Raises:
        PackagingError: it is no text of Triton's schema.

    """
    try:
        return text_format.Parse(data.decode(), schema.ModelConfig())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise PackagingError(
            f"config.pbtxt: got text that Triton's schema refuses ({error}); allowed a ModelConfig; package it again"
        ) from None


def _only_version() -> Any:  # noqa: ANN401 - as above
    return schema.ModelVersionPolicy(specific=schema.ModelVersionPolicy.Specific(versions=[VERSION]))


def _dynamic_batching(batching: Batching) -> Any:  # noqa: ANN401 - as above
    policy = schema.ModelQueuePolicy(
        timeout_action=schema.ModelQueuePolicy.REJECT,
        default_timeout_microseconds=_microseconds(batching.deadline_ms),
        allow_timeout_override=True,
        max_queue_size=batching.max_queue_size,
    )
    return schema.ModelDynamicBatching(
        preferred_batch_size=batching.preferred_batch_sizes,
        max_queue_delay_microseconds=_microseconds(batching.max_queue_delay_ms),
        default_queue_policy=policy,
    )


def _microseconds(milliseconds: float) -> int:
    return round(milliseconds * _MICROSECONDS_PER_MS)


def _parameters(model: TritonModel) -> Iterator[tuple[str, str]]:
    """Give what a backend reads beside the schema (onnxruntime_backend and python_backend, README)."""
    if model.backend == "onnxruntime" and model.intra_op_threads:
        yield "intra_op_thread_count", str(model.intra_op_threads)
    if model.environment:
        yield "EXECUTION_ENV_PATH", f"$$TRITON_MODEL_DIRECTORY/{ENVIRONMENT}"


def _tensor(kind: Any, spec: TensorSpec) -> Any:  # noqa: ANN401 - as above
    tensor = kind(name=spec.name, data_type=data_type(spec.dtype), dims=spec.shape or _SCALAR_DIMS)
    if not spec.shape:  # Triton wants a dimension beside the batch; reshape takes it away before the model
        tensor.reshape.SetInParent()
    if spec.ragged and kind is schema.ModelInput:
        tensor.allow_ragged_batch = True
    return tensor


def data_type(dtype: DType) -> int:
    """Give the schema's number of an element type."""
    return int(schema.DataType.Value("TYPE_STRING" if dtype is DType.BYTES else f"TYPE_{dtype.value}"))


def _batch_input(spec: BatchInputSpec) -> Any:  # noqa: ANN401 - as above
    return schema.BatchInput(
        kind=_BATCH_KINDS[spec.kind],
        target_name=[spec.name],
        data_type=data_type(DType(spec.dtype)),
        source_input=[spec.source],
    )


def _warmups(model: TritonModel) -> Iterator[Any]:
    """Give a lone request and a full batch, so that neither is slow when it comes first."""
    if model.warmup is None:
        return
    given = {tensor.name: tensor for tensor in model.warmup}
    for size in sorted({1, max(1, model.batching.max_batch_size)}):
        inputs = {
            spec.name: _warm_input(spec, given.get(spec.name), batched=model.batching.max_batch_size > 0)
            for spec in model.inputs
        }
        yield schema.ModelWarmup(name="lone" if size == 1 else "full", batch_size=size, inputs=inputs)


def _warm_input(spec: TensorSpec, row: Tensor | None, *, batched: bool) -> Any:  # noqa: ANN401 - as above
    shape: Sequence[int] = spec.shape
    if row is not None:
        shape = row.array.shape[1:] if batched else row.array.shape
    value = schema.ModelWarmup.Input(data_type=data_type(spec.dtype), dims=shape or _SCALAR_DIMS)
    if row is None:
        value.zero_data = True
    else:
        value.input_data_file = spec.name
    return value
