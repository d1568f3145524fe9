"""The tensors of several requests as one batch, and the outputs of a batch as those of each request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from serving.errors import ModelFailedError
from serving.protocol.tensors import Array


def stack(requests: Sequence[Sequence[Array]]) -> list[Array]:
    """Join the inputs of requests along their rows; those of a single request are given as they are."""
    if len(requests) == 1:
        return list(requests[0])
    return [np.concatenate(arrays) for arrays in zip(*requests, strict=True)]


def split(outputs: Sequence[Array], rows: Sequence[int]) -> list[list[Array]]:
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
    if len(rows) == 1:
        return [list(outputs)]
    parts, at = [], 0
    for count in rows:
        parts.append([output[at : at + count] for output in outputs])
        at += count
    return parts
