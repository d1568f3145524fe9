"""What a model takes and gives: names, element types and shapes of its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DType(StrEnum):
    """Tensor element types, in the words of the Open Inference Protocol."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    INT8 = "INT8"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One input or output; `shape` is without the batch dimension, -1 where it varies."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    range: tuple[float, float] | None = None
    categories: tuple[str, ...] = ()
