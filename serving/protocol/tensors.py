"""Named tensors and the requests and answers made of them: what one codec, one server and one client share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BF16": np.dtype([("bf16", "<u2")]),
    "BYTES": np.dtype(np.object_),
}
"""Every datatype of the Open Inference Protocol, and the array that holds it.

BYTES are objects that are `bytes`; BF16, which NumPy lacks, is a record of the upper half of a float32, so that nobody
takes it for an integer.
"""

DATATYPES: dict[np.dtype[Any], str] = {dtype: name for name, dtype in DTYPES.items()}
"""The protocol's name of each array type."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One named array; BYTES are an object array of `bytes`."""

    name: str
    array: Array

    @property
    def datatype(self) -> str:
        """The protocol's name of its element type; KeyError for one the protocol has no name for."""
        return DATATYPES[self.array.dtype]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InferRequest:
    """One inference request; `outputs` are the names asked for (none: all).

    All outputs are asked for in raw bytes if `binary_output`, else those of `binary_names`; `timeout_us` 0 is none.
    """

    id: str = ""
    inputs: tuple[Tensor, ...]
    outputs: tuple[str, ...] = ()
    binary_output: bool = False
    binary_names: frozenset[str] = frozenset()
    timeout_us: int = 0
    stream: bool = False
    """Whether the answer may come in chunks, as the client reads it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InferResponse:
    """The answer to one request, `id` as it was sent."""

    model_name: str
    model_version: str
    id: str = ""
    outputs: tuple[Tensor, ...]
