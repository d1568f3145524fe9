"""The floor of the model: ONNX Runtime in this process, one thread, no server."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

from benchmarks.serving.models import INPUT, BenchModel
from serving.protocol.tensors import Array


def session(graph: Path) -> ort.InferenceSession:
    """Load a graph as every server here does: one thread that does not spin."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def expected(model: BenchModel, graph: Path) -> Array:
    """Give the scores of the model's distinct requests, a row at a time."""
    loaded = session(graph)
    scores: list[Array] = [loaded.run(None, {INPUT: row[None]})[0][0] for row in model.rows()]
    return np.stack(scores)


def rows_per_s(model: BenchModel, graph: Path, *, rows: int, seconds: float) -> float:
    """Run batches of one size for a while."""
    loaded = session(graph)
    batch = np.resize(model.rows(), (rows, *model.row))
    loaded.run(None, {INPUT: batch})
    began_s = time.perf_counter()
    done = 0
    while time.perf_counter() - began_s < seconds:
        loaded.run(None, {INPUT: batch})
        done += rows
    return done / (time.perf_counter() - began_s)
