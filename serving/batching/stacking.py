"""The tensors of requests as one batch, its outputs as those of each request, and large requests in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from serving.errors import ModelFailedError
from serving.protocol.tensors import Array

_LEAST_REUSED_BYTES = 1 << 20
"""Below, the allocator hands out the memory of the last batch by itself, and faster than a view of ours is made."""


class Stacker:
    """Joins requests along their rows; large batches of one worker go into memory that it keeps.

    Fresh memory of a large batch is zeroed page by page by the kernel while it is filled. What `stack` gave is good
    until it is called again.
    """

    def __init__(self) -> None:
        self._kept: dict[int, Array] = {}

    def stack(self, requests: Sequence[Sequence[Array]]) -> list[Array]:
        """Join the inputs of requests; those of a single request are given as they are."""
        if len(requests) == 1:
            return list(requests[0])
        return [self._join(number, arrays) for number, arrays in enumerate(zip(*requests, strict=True))]

    def owned(self, outputs: Sequence[Array]) -> list[Array]:
        """Give outputs that the next batch does not overwrite: a model may answer with its input, or a part of it."""
        if not self._kept:
            return list(outputs)
        kept = self._kept.values()
        return [
            output.copy() if any(np.may_share_memory(output, memory) for memory in kept) else output
            for output in outputs
        ]

    def _join(self, number: int, arrays: Sequence[Array]) -> Array:
        size = sum(array.size for array in arrays)
        dtype = arrays[0].dtype
        if dtype.hasobject or size * dtype.itemsize < _LEAST_REUSED_BYTES:
            return np.concatenate(arrays)
        memory = self._kept.get(number)
        if memory is None or memory.size < size:
            memory = self._kept[number] = np.empty(size, dtype)
        joined = memory[:size].reshape(-1, *arrays[0].shape[1:])
        return np.concatenate(arrays, out=joined)


class Parts(Sequence[list[Array]]):
    """The outputs of a batch, of which each request has its rows; they are cut when somebody looks."""

    __slots__ = ("outputs", "rows")

    def __init__(self, outputs: Sequence[Array], rows: Sequence[int]) -> None:
        self.outputs = outputs
        self.rows = rows

    def __len__(self) -> int:
        """Count the requests."""
        return len(self.rows)

    @overload
    def __getitem__(self, number: int) -> list[Array]: ...

    @overload
    def __getitem__(self, number: slice) -> list[list[Array]]: ...

    def __getitem__(self, number: int | slice) -> list[Array] | list[list[Array]]:
        """Give what one request has of each output."""
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        first = sum(self.rows[:number])
        return [output[first : first + self.rows[number]] for output in self.outputs]

    def __iter__(self) -> Iterator[list[Array]]:
        """Give what each request has, in order."""
        at = 0
        for count in self.rows:
            yield [output[at : at + count] for output in self.outputs]
            at += count


def split(outputs: Sequence[Array], rows: Sequence[int]) -> Parts:
    """Give each request its rows of every output, in order.

    Raises:
        ModelFailedError: an output has another number of rows than was asked for; whose they are nobody knows.

    """
    total = sum(rows)
    for output in outputs:
        if output.ndim == 0 or len(output) != total:
            raise ModelFailedError(
                f"model: got an output of shape {list(output.shape)}; allowed {total} rows, as in the inputs; "
                f"check that every output of the graph keeps the batch dimension"
            )
    return Parts(outputs, rows)


def divide(arrays: Sequence[Array], *, max_rows: int) -> list[list[Array]]:
    """Cut a request into parts of `max_rows` rows, the last one of what is left; nothing is copied."""
    return [[array[at : at + max_rows] for array in arrays] for at in range(0, len(arrays[0]), max_rows)]


def join(parts: Sequence[Sequence[Array]]) -> list[Array]:
    """Put the outputs of a request's parts together.

    Raises:
        ModelFailedError: the parts have outputs of different shapes, which no array can hold.

    """
    try:
        return [np.concatenate(outputs) for outputs in zip(*parts, strict=True)]
    except ValueError as error:
        raise ModelFailedError(
            f"model: got parts of a large request that do not fit together ({error}); "
            f"allowed one shape a row; send fewer rows a request"
        ) from None
