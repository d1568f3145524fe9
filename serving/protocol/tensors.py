"""What travels: named arrays in a request, named arrays in an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serving.spec import DType

NUMPY_OF: dict[DType, np.dtype[Any]] = {
    DType.BOOL: np.dtype(np.bool_),
    DType.UINT8: np.dtype(np.uint8),
    DType.INT8: np.dtype(np.int8),
    DType.INT32: np.dtype("<i4"),
    DType.INT64: np.dtype("<i8"),
    DType.FP16: np.dtype("<f2"),
    DType.FP32: np.dtype("<f4"),
    DType.FP64: np.dtype("<f8"),
    DType.BYTES: np.dtype(object),
}
"""Little-endian, as Triton's binary tensor extension fixes it; BYTES are object arrays of bytes."""

DTYPE_OF: dict[np.dtype[Any], DType] = {dtype: name for name, dtype in NUMPY_OF.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A named array, its first axis the rows of a batch."""

    name: str
    array: NDArray[Any]

    @property
    def dtype(self) -> DType:
        """The element type in the protocol's words."""
        return DTYPE_OF[self.array.dtype.newbyteorder("<")]


@dataclass(frozen=True, slots=True, eq=False)
class InferRequest:
    """One inference request; empty `outputs` asks for all, `binary_output` for binary tensors in the answer."""

    id: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[str, ...] = ()
    binary_output: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class InferResponse:
    """One answer."""

    model_name: str
    model_version: str
    id: str
    outputs: tuple[Tensor, ...]
