"""What a model takes and gives: names, element types and shapes of its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DType(StrEnum):
    """Tensor element types, in the words of the Open Inference Protocol."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BF16 = "BF16"
    BYTES = "BYTES"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One input or output; `shape` is without the batch dimension, if the model has one; -1 where it varies.

    `ragged`: rows of different lengths share a batch, joined end to end (Triton's `allow_ragged_batch`).
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    range: tuple[float, float] | None = None
    categories: tuple[str, ...] = ()
    ragged: bool = False
