"""Elements of one tensor: JSON lists or little-endian bytes to arrays, and back; strict both ways.

A number is never made of a text, an integer never of a fraction, and nothing wraps around or becomes infinite.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from serving.errors import InvalidRequestError
from serving.protocol.tensors import DTYPES, Array

# struct refuses what numpy would silently convert: texts, fractions for integers, values out of range.
STRUCT_CODES = {
    "INT8": "b",
    "UINT16": "H",
    "INT16": "h",
    "UINT32": "I",
    "INT32": "i",
    "UINT64": "Q",
    "INT64": "q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}
_LENGTH = struct.Struct("<I")


def from_lists(data: object, *, name: str, datatype: str, shape: Sequence[int], size: int) -> Array:
    """Make an array of flat or nested JSON lists.

    Raises:
        InvalidRequestError: other nesting or another number of elements than the shape says, or a wrong element.

    """
    flat = _flatten(data, name, shape)
    if len(flat) != size:
        raise InvalidRequestError(
            f"tensor {name!r}: got {len(flat)} elements; shape {list(shape)} needs {size}; send as many"
        )
    if datatype == "BYTES":
        return _texts(flat, name).reshape(shape)
    if datatype == "BOOL" and not all(value is True or value is False for value in flat):
        raise InvalidRequestError(f"tensor {name!r}: got an element that is no truth value; allowed true or false")
    try:
        if datatype == "BF16":
            return _finite_bfloat16(np.frombuffer(struct.pack(f"<{size}f", *flat), dtype="<f4")).reshape(shape)
        if datatype in {"UINT8", "BOOL"}:
            packed = bytes(flat)
        else:
            packed = struct.pack(f"<{size}{STRUCT_CODES[datatype]}", *flat)
    except (struct.error, OverflowError, ValueError, TypeError) as error:
        raise InvalidRequestError(
            f"tensor {name!r}: got an element that is no {datatype} ({error}); "
            f"allowed numbers of that type; fix the values or the datatype"
        ) from None
    return np.frombuffer(packed, dtype=DTYPES[datatype]).reshape(shape)


def _finite_bfloat16(numbers: Array) -> Array:
    halves = to_bfloat16(numbers)
    if np.isinf(from_bfloat16(halves)).any():
        raise OverflowError("too large to be rounded")
    return halves


def _flatten(data: object, name: str, shape: Sequence[int]) -> list[Any]:
    if type(data) is not list:
        raise InvalidRequestError(f"tensor {name!r}: got a {type(data).__name__} as data; allowed a list; wrap it")
    level = 0
    flat: list[Any] = data
    while flat and type(flat[0]) is list:
        right = level + 1 < len(shape) and set(map(type, flat)) == {list} and set(map(len, flat)) == {shape[level + 1]}
        if not right:
            raise InvalidRequestError(
                f"tensor {name!r}: got data nested otherwise than its shape {list(shape)}; "
                f"allowed lists nested as the shape says, or one flat list in row-major order"
            )
        flat = list(chain.from_iterable(flat))
        level += 1
    return flat


def _texts(flat: list[Any], name: str) -> Array:
    array = np.empty(len(flat), dtype=np.object_)
    for index, text in enumerate(flat):
        if type(text) is not str:
            raise InvalidRequestError(
                f"tensor {name!r}: got a {type(text).__name__} at {index}; allowed texts for BYTES; quote it"
            )
        array[index] = text.encode()
    return array


def from_bytes(data: memoryview, *, name: str, datatype: str, shape: Sequence[int], size: int) -> Array:
    """Make an array of raw little-endian bytes without copying them (BYTES: each element after its uint32 length).

    Raises:
        InvalidRequestError: another number of bytes than shape and datatype need.

    """
    if datatype == "BYTES":
        return _split_lengths(data, name, size).reshape(shape)
    dtype = DTYPES[datatype]
    if len(data) != size * dtype.itemsize:
        raise InvalidRequestError(
            f"tensor {name!r}: got {len(data)} bytes; shape {list(shape)} of {datatype} needs {size * dtype.itemsize}; "
            f"set binary_data_size and the shape to what is sent"
        )
    if datatype == "BOOL" and size and np.frombuffer(data, dtype=np.uint8).max() > 1:
        raise InvalidRequestError(f"tensor {name!r}: got a byte above 1; allowed 0 or 1 for BOOL; send 0 or 1")
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def _split_lengths(data: memoryview, name: str, size: int) -> Array:
    if size > len(data) // _LENGTH.size:  # before memory is taken for a size that the bytes cannot hold
        raise InvalidRequestError(
            f"tensor {name!r}: got {len(data)} bytes; {size} BYTES elements need at least {size * _LENGTH.size}; "
            f"write a uint32 length before each element"
        )
    array = np.empty(size, dtype=np.object_)
    at = 0
    for index in range(size):
        start = at + _LENGTH.size
        end = start + _LENGTH.unpack_from(data, at)[0] if start <= len(data) else start
        if end > len(data):
            raise InvalidRequestError(
                f"tensor {name!r}: got element {index} reaching past the end of its {len(data)} bytes; "
                f"allowed a uint32 length, then as many bytes; check binary_data_size"
            )
        array[index] = bytes(data[start:end])
        at = end
    if at != len(data):
        raise InvalidRequestError(
            f"tensor {name!r}: got {len(data) - at} bytes after element {size}, the last; allowed none; fix the shape"
        )
    return array


def to_bytes(array: Array) -> bytes:
    """Give the raw little-endian bytes of an array, row-major (BYTES: each element after its uint32 length)."""
    if array.dtype.hasobject:
        return b"".join(_LENGTH.pack(len(item)) + item for item in array.flat)
    return array.tobytes()


def to_jsonable(array: Array, *, name: str) -> object:
    """Give what orjson writes as one flat list: an array, or texts for BYTES.

    Raises:
        InvalidRequestError: BYTES that are no UTF-8, which JSON cannot carry.

    """
    if array.dtype == DTYPES["BF16"]:
        return from_bfloat16(array).reshape(-1)
    if not array.dtype.hasobject:
        return np.ascontiguousarray(array).reshape(-1)
    try:
        return [item.decode() for item in array.flat]
    except UnicodeDecodeError as error:
        raise InvalidRequestError(
            f"tensor {name!r}: got bytes that are no UTF-8 ({error}); JSON carries texts only; use the binary form"
        ) from None


def to_bfloat16(array: Array) -> Array:
    """Round float32 to the nearest BF16, ties to even."""
    bits = np.ascontiguousarray(array, dtype="<f4").view("<u4")
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    # rounding would carry a NaN of low bits into infinity
    halves = np.where(np.isnan(array), (bits >> 16) | 0x40, rounded).astype("<u2")
    return halves.view(DTYPES["BF16"])


def from_bfloat16(array: Array) -> Array:
    """Give the float32 that each BF16 is."""
    return (np.ascontiguousarray(array).view("<u2").astype("<u4") << 16).view("<f4")
