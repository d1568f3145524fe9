"""One real inference on a model's sample: what it answers is checked against what it says it answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from serving.errors import InvalidRequestError
from serving.protocol.codec import JSON_TYPE, decode_request
from serving.protocol.tensors import DTYPES, Array, Tensor
from serving.spec.runtime import BatchInputSpec
from serving.spec.tensors import DType, TensorSpec

_QUIET = 3
"""ONNX Runtime's severity ERROR: its warnings are not for the reader of a command."""


def sample_problems(
    sample: bytes, inputs: Sequence[TensorSpec], *, batched: bool = True
) -> tuple[tuple[Tensor, ...], list[str]]:
    """Read `samples/request.json`; give its tensors and every way in which they are no request of that model."""
    try:
        tensors = decode_request(sample, content_type=JSON_TYPE).inputs
    except InvalidRequestError as error:
        return (), [f"samples/request.json: {error}"]
    problems = _tensor_problems("input", tensors, inputs, batched=batched)
    return tensors, [f"samples/request.json: {text}" for text in problems]


def first_rows(tensors: Sequence[Tensor], *, batched: bool = True) -> tuple[Tensor, ...]:
    """Give the first row of each tensor, the batch dimension kept; the whole tensor where there are no batches."""
    if not batched:
        return tuple(tensors)
    return tuple(Tensor(tensor.name, np.ascontiguousarray(tensor.array[:1])) for tensor in tensors)


def answer_problems(
    model: Path,
    tensors: Sequence[Tensor],
    outputs: Sequence[TensorSpec],
    *,
    batched: bool = True,
    ragged: Sequence[str] = (),
    computed: Sequence[BatchInputSpec] = (),
) -> list[str]:
    """Run an ONNX file once on the CPU; give every way in which its answer is not what the spec says.

    Args:
        model: the file.
        tensors: the inputs of the sample.
        outputs: what the spec says of the answer.
        batched: the first dimension is the batch.
        ragged: inputs whose rows the graph takes joined end to end.
        computed: what Triton gives the graph beside them.

    """
    joined = [Tensor(tensor.name, tensor.array.reshape(-1)) if tensor.name in ragged else tensor for tensor in tensors]
    sources = {tensor.name: tensor.array for tensor in tensors}
    joined += [Tensor(each.name, _counts(each, sources[each.source])) for each in computed]
    try:
        answer = _run(model, joined)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime has a class for each of its failures, none of them common
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        return [f"model.onnx: got an error of ONNX Runtime on the sample ({first}); mend the graph or the sample"]
    problems = list(_tensor_problems("output", answer, outputs, batched=batched))
    if not batched:
        return problems
    expected = len(tensors[0].array)
    problems += [
        f"output {tensor.name!r}: got {len(tensor.array)} rows; allowed {expected}, as many as asked; fix the graph"
        for tensor in answer
        if tensor.array.ndim and len(tensor.array) != expected
    ]
    return problems


def _counts(spec: BatchInputSpec, rows: Array) -> Array:
    """Compute what Triton would for rows of one request (model_config.proto, *BatchInput.Kind*)."""
    counts = np.full(len(rows), rows[0].size)
    if spec.kind != "element-count":
        counts = np.cumsum(counts)
    if spec.kind == "accumulated-element-count-with-zero":
        counts = np.concatenate([[0], counts])
    return counts.astype(DTYPES[spec.dtype])


def _run(model: Path, tensors: Sequence[Tensor]) -> list[Tensor]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    arrays = session.run(names, {tensor.name: _for_runtime(tensor.array) for tensor in tensors})
    return [Tensor(name, np.asarray(array)) for name, array in zip(names, arrays, strict=True)]


def _for_runtime(array: Array) -> Array:
    """ONNX Runtime takes texts, not bytes, as elements of a string tensor."""
    if not array.dtype.hasobject:
        return np.ascontiguousarray(array)
    texts = np.empty(array.size, dtype=np.object_)
    texts[:] = [item.decode() for item in array.flat]
    return texts.reshape(array.shape)


def _tensor_problems(
    kind: str, tensors: Sequence[Tensor], specs: Sequence[TensorSpec], *, batched: bool
) -> Iterator[str]:
    found = {tensor.name: tensor for tensor in tensors}
    named = {spec.name: spec for spec in specs}
    for name in sorted(found.keys() ^ named.keys()):
        yield f"{kind} {name!r}: got {sorted(found)}; allowed {sorted(named)}; use the names of model.toml"
    for name in sorted(found.keys() & named.keys()):
        yield from _mismatch(f"{kind} {name!r}", found[name].array, named[name], batched=batched)


def _mismatch(what: str, array: Array, spec: TensorSpec, *, batched: bool) -> Iterator[str]:
    datatype = Tensor(spec.name, array).datatype if not array.dtype.hasobject else DType.BYTES.value
    if datatype != spec.dtype.value:
        yield f"{what}: got {datatype}; allowed {spec.dtype.value}; correct model.toml or the file"
    row = array.shape[1:] if batched else array.shape
    fits = len(row) == len(spec.shape) and all(want in {-1, have} for want, have in zip(spec.shape, row, strict=False))
    if (batched and not array.ndim) or not fits:
        allowed = _listed((*(["rows"] if batched else []), *spec.shape))
        yield f"{what}: got shape {list(array.shape)}; allowed [{allowed}]; correct the file"
    yield from _out_of_range(what, array, spec)


def _out_of_range(what: str, array: Any, spec: TensorSpec) -> Iterator[str]:  # noqa: ANN401 - any element type
    if array.dtype.hasobject or not array.size:
        return
    low, high = float(array.min()), float(array.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        yield f"{what}: got values that are not finite; allowed numbers; mend the graph or the sample"
    elif spec.range is not None and not spec.range[0] <= low <= high <= spec.range[1]:
        yield f"{what}: got values from {low:g} to {high:g}; allowed {spec.range[0]:g} to {spec.range[1]:g}; mend it"


def _listed(shape: Sequence[int | str]) -> str:
    return ", ".join("any" if size == -1 else str(size) for size in shape)
