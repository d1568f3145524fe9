"""ONNX graphs asked in process: whole arrays in, whole arrays out, the same answer on any number of cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from serving.errors import PackagingError
from serving.protocol.tensors import Array

Arrays = Mapping[str, Array]
"""Arrays by tensor name, the batch first; BYTES are object arrays of `bytes`."""

Answer = Callable[[Arrays], dict[str, Array]]
"""What stands for a model: rows in, as many rows out."""

_QUIET = 3
"""ONNX Runtime's severity ERROR: its warnings are not for the reader of a command."""


def answers_of(model: Path | bytes | onnx.ModelProto, *, batch_rows: int = 0) -> Answer:
    """Load a graph on one CPU thread and give a function that asks it, at most `batch_rows` at a time (0: all at once).

    The function raises PackagingError where ONNX Runtime does, in its first line.
    """
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString(deterministic=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _QUIET
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - ONNX Runtime has a class for each of its failures, none of them common
        raise _refused("graph", error) from None
    names = [output.name for output in session.get_outputs()]

    def ask(arrays: Arrays) -> dict[str, Array]:
        feeds = {name: for_runtime(array) for name, array in arrays.items()}
        rows = min(map(len, feeds.values()))
        step = batch_rows if batch_rows > 0 else max(rows, 1)
        parts = []
        for start in range(0, rows, step):
            try:
                parts.append(session.run(names, {name: feed[start : start + step] for name, feed in feeds.items()}))
            except Exception as error:  # noqa: BLE001 - as above
                raise _refused("answer", error) from None
        return {name: np.concatenate([part[at] for part in parts]) for at, name in enumerate(names)}

    return ask


def _refused(what: str, error: Exception) -> PackagingError:
    first = next(iter(str(error).splitlines()), type(error).__name__)
    return PackagingError(f"{what}: got an error of ONNX Runtime ({first}); allowed none; mend the graph or its inputs")


def for_runtime(array: Array) -> Array:
    """Give an array as ONNX Runtime takes it: texts, not bytes, as elements of a string tensor."""
    if not array.dtype.hasobject:
        return np.ascontiguousarray(array)
    texts = np.empty(array.size, dtype=np.object_)
    texts[:] = [item.decode() for item in array.flat]
    return texts.reshape(array.shape)
