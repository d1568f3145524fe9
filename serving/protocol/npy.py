"""One array as NumPy's own file format, without pickle and without taking memory for what the bytes do not hold."""

from __future__ import annotations

import io
from math import prod
from typing import Any

import numpy as np
from numpy.lib import format as npy

from serving.errors import InvalidRequestError
from serving.protocol.tensors import DATATYPES, Array

NPY_TYPE = "application/x-npy"
_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def decode_npy(body: bytes) -> Array:
    """Read one array; its memory is the body's, unless the bytes must be put in order first.

    Raises:
        InvalidRequestError: no NPY, or elements that are no numbers.

    """
    shape, fortran, dtype, at = _header(body)
    little, size = dtype.newbyteorder("<"), prod(shape)
    if not holds(little) or min(shape, default=0) < 0 or len(body) - at != size * dtype.itemsize:
        raise _refused(f"{list(shape)} of {dtype} and {len(body) - at} bytes")
    if little.kind == "b" and size and np.frombuffer(body, np.uint8, size, at).max() > 1:
        raise _refused("a truth value that is neither 0 nor 1")
    array = np.frombuffer(body, dtype, size, at).reshape(shape, order="F" if fortran else "C")
    return np.ascontiguousarray(array, dtype=little) if fortran or dtype != little else array


def _header(body: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Give shape, whether columns come first, type, and where the elements begin."""
    stream = io.BytesIO(body)
    try:
        shape, fortran, dtype = _READERS[npy.read_magic(stream)](stream)
    except Exception as error:  # noqa: BLE001 - a header is a Python literal: reading one raises what Python does
        raise _refused(f"no array ({type(error).__name__})") from None
    return shape, fortran, dtype, stream.tell()


def _refused(got: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"body: got {got}; allowed one array of numbers as numpy.save writes it (NPY 1.0 or 2.0), without pickle and "
        f"with nothing behind it; send texts and several inputs as JSON"
    )


def encode_npy(array: Array) -> bytes:
    """Give the bytes that `numpy.load` reads without pickle."""
    stream = io.BytesIO()
    npy.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def holds(dtype: np.dtype[Any]) -> bool:
    """Whether NPY can carry these elements."""
    return dtype in DATATYPES and dtype.names is None and not dtype.hasobject
