"""What every backend gives: outputs for inputs, and how long a batch takes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from serving.batching.service_times import ServiceTimes
from serving.protocol.tensors import DTYPES, Array
from serving.runtime.workers import Separate
from serving.spec.tensors import DType, TensorSpec

_REPEATS = 3
_WARM_UP_S = 0.5


class Runner(ABC):
    """One loaded model; `run` and `separate` may be called by several threads at once."""

    steady = False
    """Whether the run time follows from the number of rows, whatever the values are."""

    separate: Separate | None = None
    """Set where requests must not be joined along their rows; it is used instead of `run` then."""

    @abstractmethod
    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Give the outputs for the inputs, both in the order of the spec.

        Raises:
            ModelFailedError: the model raised, or gave what its spec does not say.

        """

    def close(self) -> None:  # noqa: B027 - most models hold nothing but memory
        """Free what it holds; nothing runs any more."""

    def warm_up(self, sample: Sequence[Array], *, max_rows: int) -> ServiceTimes:
        """Run the sample at growing sizes and give how long each took; larger sizes are extrapolated if it takes long.

        Raises:
            ModelFailedError: the sample does not run.

        """
        started = time.monotonic()
        points: list[tuple[int, float]] = []
        rows = 1
        while True:
            rows = min(rows, max_rows)
            batch = [repeated(array, rows) for array in sample] if max_rows > 1 else list(sample)
            self.run(batch)  # the first run of a shape allocates
            points.append((rows, median(self._timed(batch) for _ in range(_REPEATS))))
            if rows == max_rows or time.monotonic() - started > _WARM_UP_S:
                return ServiceTimes.measured(points, max_rows=max_rows)
            rows *= 2

    def _timed(self, batch: Sequence[Array]) -> float:
        started = time.perf_counter()
        self.run(batch)
        return time.perf_counter() - started


def blank(tensors: Sequence[TensorSpec], *, batched: bool = True) -> list[Array]:
    """Give one row of zeros (empty texts) for every tensor, or the tensor alone; a size that varies is 1."""
    arrays = []
    for tensor in tensors:
        shape = tuple(1 if size < 0 else size for size in tensor.shape)
        fill: Any = b"" if tensor.dtype is DType.BYTES else 0
        arrays.append(np.full((1, *shape) if batched else shape, fill, dtype=DTYPES[tensor.dtype]))
    return arrays


def repeated(array: Array, rows: int) -> Array:
    """Give so many rows: the array's own, again and again."""
    return np.ascontiguousarray(array[np.arange(rows) % len(array)])
