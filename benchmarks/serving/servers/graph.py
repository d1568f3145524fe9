"""The model as every peer runs it: ONNX Runtime, one thread that does not spin, arrays in and out.

Run by the Python of a peer's own environment; what to run is in the variables that `launch.py` sets.
"""

from __future__ import annotations

import os

import numpy as np
import onnxruntime as ort

MAX_ROWS = int(os.environ["BENCH_MAX_ROWS"])
WINDOW_MS = float(os.environ["BENCH_WINDOW_MS"])
PORT = int(os.environ["BENCH_PORT"])
DTYPE = np.dtype(os.environ["BENCH_DTYPE"])
ROW = tuple(int(size) for size in os.environ["BENCH_ROW"].split(","))


class Graph:
    """The graph of the benchmark's model."""

    def __init__(self):
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        path = os.environ["BENCH_MODEL"]
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        for rows in (1, MAX_ROWS):
            self.run(np.zeros((rows, *ROW), dtype=DTYPE))

    def run(self, batch):
        """Give float32 `[rows, outputs]` for `[rows, *ROW]`."""
        return self._session.run(None, {"x": batch})[0]


def row_of_bytes(body):
    """Give one row of what a binary request holds."""
    return np.frombuffer(body, dtype=DTYPE).reshape(ROW)


def row_of_list(values):
    """Give one row of what a JSON request holds, a flat list."""
    return np.array(values, dtype=DTYPE).reshape(ROW)
