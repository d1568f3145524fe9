"""The two models every server runs, and the rows they are asked.

*ranker* is bound by HTTP and JSON (a row takes some microseconds), *moderator* by arithmetic (a row takes about a
millisecond of one core). Both answer float32 scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import orjson

from serving.protocol.tensors import Array
from serving.spec.tensors import DType

MAX_ROWS = 32
WINDOW_MS = 10
INPUT, OUTPUT = "x", "y"
DISTINCT_REQUESTS = 32
"""Connections ask different rows, so that an answer given to a batch-mate is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchModel:
    """One input, one output.

    The p90 of an open loop must stay below `budget_ms`; an answer in overload counts within `in_time_ms` of when it was
    due. The server is told a deadline a tenth shorter, since it does not see the way to it and back.
    """

    name: str
    dtype: DType
    row: tuple[int, ...]
    outputs: int
    budget_ms: float
    in_time_ms: int

    @property
    def deadline_ms(self) -> int:
        """What the archive says."""
        return self.in_time_ms * 9 // 10

    def rows(self) -> Array:
        """Give the inputs that are asked, `[DISTINCT_REQUESTS, *row]`, seeded."""
        rng = np.random.default_rng(5)
        shape = (DISTINCT_REQUESTS, *self.row)
        if self.dtype is DType.UINT8:
            return rng.integers(0, 256, shape, dtype=np.uint8)
        return np.round(rng.standard_normal(shape), 4).astype(np.float32)


RANKER = BenchModel(name="ranker", dtype=DType.FP32, row=(64,), outputs=1, budget_ms=12, in_time_ms=100)
MODERATOR = BenchModel(name="moderator", dtype=DType.UINT8, row=(3, 64, 64), outputs=4, budget_ms=45, in_time_ms=200)
MODELS = (RANKER, MODERATOR)


def encode_oip_json(model: BenchModel, row: Array) -> bytes:
    """Give the JSON request of the Open Inference Protocol for one row."""
    tensor = {"name": INPUT, "shape": [1, *model.row], "datatype": model.dtype.value, "data": row.ravel()}
    return orjson.dumps({"inputs": [tensor]}, option=orjson.OPT_SERIALIZE_NUMPY)
