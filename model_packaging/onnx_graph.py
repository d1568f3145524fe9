"""An ONNX file against its spec: every mismatch at once, before anything is packaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx

from serving.errors import PackagingError
from serving.spec.model import ModelSpec
from serving.spec.runtime import BatchInputSpec, TritonRuntime
from serving.spec.tensors import DType, TensorSpec

# What every ONNX Runtime since 1.18 loads (https://onnxruntime.ai/docs/reference/compatibility.html).
MAX_IR_VERSION = 10
MAX_OPSET = 21
MIN_OPSET = 7
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
"""Operator sets that ONNX Runtime has built in; others need a library that no container loads."""

MAX_BYTES = (2 << 30) - 1
"""The largest protobuf message; a larger model keeps its weights outside, which a single file cannot."""

_ELEMENTS = {
    DType.BOOL: onnx.TensorProto.BOOL,
    DType.UINT8: onnx.TensorProto.UINT8,
    DType.UINT16: onnx.TensorProto.UINT16,
    DType.UINT32: onnx.TensorProto.UINT32,
    DType.UINT64: onnx.TensorProto.UINT64,
    DType.INT8: onnx.TensorProto.INT8,
    DType.INT16: onnx.TensorProto.INT16,
    DType.INT32: onnx.TensorProto.INT32,
    DType.INT64: onnx.TensorProto.INT64,
    DType.FP16: onnx.TensorProto.FLOAT16,
    DType.FP32: onnx.TensorProto.FLOAT,
    DType.FP64: onnx.TensorProto.DOUBLE,
    DType.BF16: onnx.TensorProto.BFLOAT16,
    DType.BYTES: onnx.TensorProto.STRING,
}
_NAMES = {number: dtype.value for dtype, number in _ELEMENTS.items()}


def check_graph(path: Path, spec: ModelSpec) -> None:
    """Check that an ONNX file is whole, loads in its container and has the tensors of its spec.

    Raises:
        PackagingError: with one line a problem, all of them.

    """
    runtime = spec.runtime
    computed = runtime.batch_inputs if isinstance(runtime, TritonRuntime) else ()
    batched = isinstance(runtime, TritonRuntime) and runtime.max_batch_size > 0
    if problems := list(graph_problems(path, spec.inputs, spec.outputs, batched=batched, computed=computed)):
        raise PackagingError("\n".join(f"{path.name}: {problem}" for problem in problems))


def graph_problems(
    path: Path,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    *,
    batched: bool,
    computed: Sequence[BatchInputSpec] = (),
) -> Iterator[str]:
    """Give every way in which an ONNX file is not what its spec says.

    Args:
        path: the file.
        inputs: what the spec says the graph takes.
        outputs: what the spec says it gives.
        batched: the first dimension is the batch.
        computed: what Triton gives the graph beside the inputs, for ragged ones.

    """
    try:
        if path.stat().st_size > MAX_BYTES:
            yield f"got {path.stat().st_size} bytes; allowed {MAX_BYTES}, the largest ONNX file; quantise or split it"
            return
        model = onnx.load(path, load_external_data=False)
    except FileNotFoundError:
        yield "got no such file; allowed an ONNX file; run the model's train.py or correct the path"
        return
    except Exception as error:  # noqa: BLE001 - protobuf's error class differs between its implementations
        yield f"got bytes that are no ONNX model ({error}); allowed a self-contained ONNX file; export it again"
        return
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in _tensors(model.graph)):
        yield "got weights in files beside it; allowed one self-contained file; save it without external data"
        return
    yield from _version_problems(model)
    yield from _checker_problems(model)
    if any(not isinstance(value.name, str) for value in (*model.graph.input, *model.graph.output)):
        yield "got tensors whose names are no UTF-8; allowed the names of model.toml; export it again"
        return
    initial = {tensor.name for tensor in model.graph.initializer}
    found = [value for value in model.graph.input if value.name not in initial]
    beside = [TensorSpec(name=each.name, dtype=DType(each.dtype), shape=(), ragged=True) for each in computed]
    yield from _tensor_problems("input", found, [*inputs, *beside], batched=batched)
    yield from _tensor_problems("output", list(model.graph.output), outputs, batched=batched)


def _tensors(graph: Any) -> Iterator[Any]:  # noqa: ANN401 - onnx ships no types
    """Give every stored tensor, those inside nodes and their subgraphs too."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)


def _version_problems(model: Any) -> Iterator[str]:  # noqa: ANN401 - onnx ships no types
    if model.ir_version > MAX_IR_VERSION:
        yield f"ir_version: got {model.ir_version}; allowed up to {MAX_IR_VERSION}; export for an older ONNX"
    for used in model.opset_import:
        if used.domain not in DOMAINS:
            allowed = ", ".join(domain or "ai.onnx" for domain in DOMAINS[1:])
            yield f"opset: got the domain {used.domain!r}; allowed {allowed}; export with standard operators"
        elif used.domain in {"", "ai.onnx"} and not MIN_OPSET <= used.version <= MAX_OPSET:
            yield f"opset: got {used.version}; allowed {MIN_OPSET} to {MAX_OPSET}; export with opset_version=18"


def _checker_problems(model: Any) -> Iterator[str]:  # noqa: ANN401 - onnx ships no types
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # noqa: BLE001 - its own errors, and those of texts and numbers that it cannot tell
        first = next((line for line in str(error).splitlines() if line.strip()), "invalid")
        yield f"got a graph that onnx.checker refuses ({first}); allowed a valid one; export it again"


def _graph_shape(kind: str, spec: TensorSpec, *, batched: bool) -> tuple[int, ...]:
    """Give the shape that the graph must have; ragged rows arrive joined end to end in one dimension."""
    if spec.ragged and kind == "input":
        return (-1,)
    return (-1, *spec.shape) if batched else spec.shape


def _tensor_problems(kind: str, found: list[Any], specs: Sequence[TensorSpec], *, batched: bool) -> Iterator[str]:
    graph = {value.name: value for value in found}
    named = {spec.name: spec for spec in specs}
    for name in sorted(graph.keys() - named.keys()):
        yield f"{kind} {name!r}: the graph has it, model.toml does not; add it to [[{kind}s]] or export without it"
    for name, spec in named.items():
        if name not in graph:
            have = ", ".join(sorted(graph)) or "none"
            yield f"{kind} {name!r}: model.toml has it, the graph does not (it has {have}); rename one of the two"
            continue
        tensor = graph[name].type.tensor_type
        if tensor.elem_type != _ELEMENTS[spec.dtype]:
            got = _NAMES.get(tensor.elem_type, onnx.TensorProto.DataType.Name(tensor.elem_type))
            yield f"{kind} {name!r}: dtype: model.toml says {spec.dtype.value}, the graph {got}; correct model.toml"
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
        wanted = _graph_shape(kind, spec, batched=batched)
        first = " with the batch first" if batched and not spec.ragged else ""
        if not tensor.HasField("shape") or shape != wanted:
            yield (
                f"{kind} {name!r}: shape: model.toml needs {list(wanted)}{first}, "
                f"the graph has {list(shape)}; correct model.toml or export with dynamic axes"
            )
