"""An ONNX graph as a function of arrays: loaded, compared with what the archive says of it, warmed and measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from serving.errors import ArchiveError, ModelFailedError
from serving.protocol.served import ServedModel
from serving.protocol.tensors import DTYPES, Array
from serving.runtime.runner import Runner
from serving.runtime.separate import one_by_one
from serving.runtime.threads import ThreadPlan
from serving.spec.tensors import DType, TensorSpec

_ORT_TYPES = {
    "tensor(bool)": DType.BOOL,
    "tensor(uint8)": DType.UINT8,
    "tensor(uint16)": DType.UINT16,
    "tensor(uint32)": DType.UINT32,
    "tensor(uint64)": DType.UINT64,
    "tensor(int8)": DType.INT8,
    "tensor(int16)": DType.INT16,
    "tensor(int32)": DType.INT32,
    "tensor(int64)": DType.INT64,
    "tensor(float16)": DType.FP16,
    "tensor(float)": DType.FP32,
    "tensor(double)": DType.FP64,
    "tensor(string)": DType.BYTES,
}
_LOOPS = (b"\x22\x04Loop", b"\x22\x04Scan")
"""NodeProto.op_type (onnx.proto: field 4) of the operators that repeat as often as a value says."""


class OnnxModel(Runner):
    """One graph."""

    def __init__(self, path: Path, served: ServedModel, *, threads: ThreadPlan, batched: bool = True) -> None:
        self._served = served
        self._session = _session(path, served, threads)
        _agree(served, "inputs", self._session.get_inputs(), served.inputs, batched=batched)
        _agree(served, "outputs", self._session.get_outputs(), served.outputs, batched=batched)
        self._inputs = [tensor.name for tensor in served.inputs]
        self._outputs = [tensor.name for tensor in served.outputs]
        self._dtypes = [DTYPES[tensor.dtype] for tensor in served.outputs]
        self.steady = _steady(path, served)
        if not batched:
            self.separate = one_by_one(self.run)
        self._texts = any(tensor.dtype is DType.BYTES for tensor in (*served.inputs, *served.outputs))

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Give the outputs for the inputs, both in the order of the spec.

        Raises:
            ModelFailedError: the graph raised, or gave another type than the archive says.

        """
        # raw tensors lie wherever the JSON before them ends; the graph's kernels may want whole addresses
        arrays = [array if array.flags.aligned else array.copy() for array in arrays]
        try:
            if self._texts:
                arrays = [_decoded(array) if array.dtype.hasobject else array for array in arrays]
            outputs: list[Array] = self._session.run(self._outputs, dict(zip(self._inputs, arrays, strict=True)))
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors share no base class
            raise ModelFailedError(
                f"model {self._served.name} {self._served.version}: raised {type(error).__name__}: {error}; "
                f"allowed an answer; check the values of the request against the model's README"
            ) from None
        if self._texts:
            outputs = [_encoded(array) if array.dtype.hasobject else array for array in outputs]
        for output, dtype in zip(outputs, self._dtypes, strict=True):
            if output.dtype != dtype:
                raise ModelFailedError(f"model {self._served.name}: got an output of {output.dtype}; allowed {dtype}")
        return outputs

    def close(self) -> None:
        """Free the session, whoever still holds the model: a worker does until it has noticed its end."""
        self._session = None


def _steady(path: Path, served: ServedModel) -> bool:
    sizes = [size for tensor in served.inputs for size in tensor.shape]
    texts = any(tensor.dtype is DType.BYTES for tensor in served.inputs)
    graph = path.read_bytes()
    return not texts and min(sizes, default=0) >= 0 and not any(operator in graph for operator in _LOOPS)


def _decoded(array: Array) -> Array:
    return _mapped(array, [item.decode() for item in array.flat])


def _encoded(array: Array) -> Array:
    return _mapped(array, [item.encode() for item in array.flat])


def _mapped(array: Array, items: list[Any]) -> Array:
    flat = np.empty(array.size, dtype=np.object_)
    flat[:] = items
    return flat.reshape(array.shape)


def _session(path: Path, served: ServedModel, threads: ThreadPlan) -> Any:  # noqa: ANN401 - ships no types
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads.intra_op
    options.inter_op_num_threads = threads.inter_op
    modes = ort.ExecutionMode
    options.execution_mode = modes.ORT_SEQUENTIAL if threads.inter_op == 1 else modes.ORT_PARALLEL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # its errors reach the client; a poisoned request must not fill the log
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors share no base class
        raise ArchiveError(
            f"{served.name} {served.version}: {path.name}: ONNX Runtime {ort.__version__} does not load it ({error}); "
            f"allowed an ONNX graph it knows; export it again"
        ) from None


def _agree(served: ServedModel, which: str, found: Sequence[Any], said: Sequence[TensorSpec], *, batched: bool) -> None:
    graph = {node.name: (_ORT_TYPES.get(node.type), node.shape) for node in found}
    for tensor in said:
        dtype, shape = graph.get(tensor.name, (None, []))
        fixed = [size if isinstance(size, int) else -1 for size in shape]
        if dtype is not tensor.dtype or not _fits(fixed, tensor.shape, batched=batched):
            rows, how = ([-1], ", rows first") if batched else ([], "")
            raise ArchiveError(
                f"{served.name} {served.version}: {which} {tensor.name!r}: got {_described(graph)} in the graph; "
                f"allowed {tensor.dtype} {[*rows, *tensor.shape]} as the spec says{how}; "
                f"fix the spec or export the graph {'with a dynamic first dimension' if batched else 'again'}"
            )
    if which == "inputs" and len(graph) != len(said):
        raise ArchiveError(
            f"{served.name} {served.version}: inputs: got {_described(graph)} in the graph; allowed "
            f"{', '.join(tensor.name for tensor in said)} as the spec says; name every input in the spec"
        )


def _fits(graph: Sequence[int], said: Sequence[int], *, batched: bool) -> bool:
    if len(graph) != len(said) + batched:
        return not graph and bool(said)  # outputs of unknown rank have no shape; runs are checked anyway
    sizes = graph[1:] if batched else graph
    free = not batched or graph[0] == -1
    return free and all(-1 in (size, want) or size == want for size, want in zip(sizes, said, strict=True))


def _described(graph: dict[str, Any]) -> str:
    return ", ".join(f"{name} {dtype} {shape}" for name, (dtype, shape) in graph.items())
