"""Rules on what runs a model and on its tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.payload import known_bytes
from serving.spec.runtime import PyTorchRuntime, TritonRuntime, VllmRuntime
from serving.spec.tensors import DType, TensorSpec

_CONFIG = "Triton model_config"
_MOST_ROWS = 65_536
_MOST_BATCH_BYTES = 1 << 30  # beside the weights, in the 16 GiB that the smallest GPU and most instances have
_TORCH_DTYPES = frozenset(DType) - {DType.BF16, DType.UINT16, DType.UINT32, DType.UINT64}
_PYTHON_DTYPES = frozenset(DType) - {DType.BF16}  # NumPy has no such type, which pb_utils hands over
_INDEXED = re.compile(r"(.+)__(\d+)")


def tensors_are_sound(model: ModelSpec) -> Iterator[Finding]:
    """Names are distinct, dimensions positive or -1, ranges ascending."""
    for section, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        if not tensors:
            yield section, "none", "at least one tensor", f"add [[{section}]]", ""
        if len({tensor.name for tensor in tensors}) != len(tensors):
            yield section, "a name twice", "distinct names", "rename one", ""
        for index, tensor in enumerate(tensors):
            yield from _tensor(f"{section}[{index}]", tensor)


def _tensor(key: str, tensor: TensorSpec) -> Iterator[Finding]:
    if any(size != -1 and size < 1 for size in tensor.shape):
        yield (
            f"{key}.shape",
            str(list(tensor.shape)),
            "dimensions of 1 or more, or -1",
            "correct it",
            _CONFIG,
        )
    if tensor.range is not None and tensor.range[0] >= tensor.range[1]:
        yield f"{key}.range", str(list(tensor.range)), "[low, high] with low < high", "swap them", ""


def batching_leaves_time(model: ModelSpec) -> Iterator[Finding]:
    """A delay above a quarter of the p99 spends the budget on waiting (docs/serving.md)."""
    runtime = model.runtime
    if not isinstance(runtime, TritonRuntime):
        return
    limit_ms = model.slo.p99_ms / 4
    if not 0 <= runtime.max_queue_delay_ms <= limit_ms:
        got = f"{runtime.max_queue_delay_ms:g}"
        yield "runtime.max_queue_delay_ms", got, f"0 to {limit_ms:g} (a quarter of slo.p99_ms)", "shorten the delay", ""
    if runtime.max_batch_size < model.api.max_candidates:
        allowed = f"at least {model.api.max_candidates} (the largest legal request)"
        yield "runtime.max_batch_size", str(runtime.max_batch_size), allowed, "raise the cap", ""
    if runtime.max_queue_size < runtime.max_batch_size:
        allowed = f"at least runtime.max_batch_size = {runtime.max_batch_size}"
        yield "runtime.max_queue_size", str(runtime.max_queue_size), allowed, "raise the queue bound", ""


def runtime_numbers_are_legal(model: ModelSpec) -> Iterator[Finding]:
    """Counts, shares and sizes that the runtime's own server takes."""
    match model.runtime:
        case TritonRuntime() as triton:
            numbers = [("max_batch_size", triton.max_batch_size, 0), ("instances", triton.instances, 1)]
            numbers.append(("intra_op_threads", triton.intra_op_threads, 0))
            yield from _preferred(triton)
        case VllmRuntime() as vllm:
            numbers = [(key, getattr(vllm, key), 1) for key in ("tensor_parallel", "max_model_len", "max_num_seqs")]
            if not 0 < vllm.gpu_memory_utilization <= 1:
                got = f"{vllm.gpu_memory_utilization:g}"
                yield (
                    "runtime.gpu_memory_utilization",
                    got,
                    "above 0, at most 1",
                    "set a share",
                    "vLLM engine arguments",
                )
        case PyTorchRuntime() as pytorch:
            numbers = [("workers", pytorch.workers, 1), ("max_batch_size", pytorch.max_batch_size, 1)]
            numbers.append(("max_batch_delay_ms", pytorch.max_batch_delay_ms, 0))
    for key, value, least in numbers:
        if value < least:
            yield f"runtime.{key}", str(value), f"at least {least}", "raise it", ""


def _preferred(triton: TritonRuntime) -> Iterator[Finding]:
    sizes = triton.preferred_batch_sizes
    if list(sizes) != sorted(set(sizes)) or any(not 1 <= size <= triton.max_batch_size for size in sizes):
        allowed = f"ascending sizes from 1 to max_batch_size = {triton.max_batch_size}"
        yield "runtime.preferred_batch_sizes", str(list(sizes)), allowed, "correct or remove them", _CONFIG


def tensors_fit_the_backend(model: ModelSpec) -> Iterator[Finding]:
    """Each backend has its types; PyTorch finds tensors by the number at the end of their names."""
    runtime = model.runtime
    if not isinstance(runtime, TritonRuntime):
        return
    parts = [("", runtime.backend, model.inputs, model.outputs)]
    parts += [
        (f"runtime.steps[{at}].", step.backend, step.inputs, step.outputs) for at, step in enumerate(runtime.steps)
    ]
    for prefix, backend, inputs, outputs in parts:
        for section, tensors in (("inputs", inputs), ("outputs", outputs)):
            key = f"{prefix}{section}"
            if backend == "pytorch":
                yield from _typed(key, tensors, _TORCH_DTYPES, "pytorch_backend, src/libtorch_utils.cc")
                yield from _numbered(key, tensors)
            elif backend == "python":
                yield from _typed(key, tensors, _PYTHON_DTYPES, "python_backend, README")


def _typed(key: str, tensors: Sequence[TensorSpec], known: frozenset[DType], source: str) -> Iterator[Finding]:
    for tensor in tensors:
        if tensor.dtype not in known:
            allowed = ", ".join(dtype for dtype in DType if dtype in known)
            yield f"{key}.dtype", f"{tensor.dtype} of {tensor.name!r}", allowed, "cast it in the model", source


def _numbered(key: str, tensors: Sequence[TensorSpec]) -> Iterator[Finding]:
    """The backend would take misnamed tensors in the order of the file, and answer wrongly without a word."""
    found = [_INDEXED.fullmatch(tensor.name) for tensor in tensors]
    if [match and int(match[2]) for match in found] != list(range(len(tensors))):
        got = ", ".join(tensor.name for tensor in tensors)
        allowed = "NAME__0, NAME__1, … in the order of forward()"
        yield f"{key}.name", got, allowed, "rename them", "pytorch_backend, README"


def ragged_inputs_are_counted(model: ModelSpec) -> Iterator[Finding]:
    """Rows that are joined end to end are of one dimension, and something says where each of them ends."""
    runtime = model.runtime
    computed = runtime.batch_inputs if isinstance(runtime, TritonRuntime) else ()
    ragged = [tensor for tensor in model.inputs if tensor.ragged]
    source = "Triton user guide, *Ragged batching*"
    if any(tensor.ragged for tensor in model.outputs):
        yield "outputs.ragged", "true", "false: answers have one shape", "remove it", source
    batches = isinstance(runtime, TritonRuntime) and runtime.backend == "onnxruntime" and runtime.max_batch_size > 0
    if ragged and not batches:
        yield "inputs.ragged", "true", "false without a batch of the onnxruntime backend", "remove it", source
    for tensor in ragged:
        if tensor.shape != (-1,) or tensor.dtype is DType.BYTES:
            got = f"{tensor.dtype} {list(tensor.shape)} of {tensor.name!r}"
            yield "inputs.ragged", got, "numbers of shape [-1]", "flatten the rows", source
        if tensor.name not in {each.source for each in computed}:
            yield (
                "runtime.batch_inputs",
                f"none of {tensor.name!r}",
                "one at least",
                "add [[runtime.batch_inputs]]",
                source,
            )
    taken = [tensor.name for tensor in model.inputs] + [each.name for each in computed]
    if len(set(taken)) != len(taken):
        yield "runtime.batch_inputs", ", ".join(taken), "distinct names", "rename one", source
    for each in computed:
        if each.source not in {tensor.name for tensor in ragged}:
            yield "runtime.batch_inputs.source", repr(each.source), "a ragged input", "correct it", source


def batch_fits_memory(model: ModelSpec) -> Iterator[Finding]:
    """A full batch is one block of memory, which warming up fills: bounded in rows, and in known bytes."""
    runtime = model.runtime
    if isinstance(runtime, VllmRuntime):
        return
    row_bytes = sum(known_bytes(tensor) for tensor in (*model.inputs, *model.outputs))
    most = min(_MOST_ROWS, _MOST_BATCH_BYTES // row_bytes) if row_bytes > 0 else _MOST_ROWS
    if runtime.max_batch_size > most:
        allowed = f"at most {most}: {_MOST_ROWS} rows, and {_MOST_BATCH_BYTES >> 20} MiB of tensors in a batch"
        yield "runtime.max_batch_size", str(runtime.max_batch_size), allowed, "lower it", ""


RULES: tuple[Rule, ...] = (
    tensors_are_sound,
    batching_leaves_time,
    runtime_numbers_are_legal,
    batch_fits_memory,
    tensors_fit_the_backend,
    ragged_inputs_are_counted,
)
