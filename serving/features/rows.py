"""One feature row as bytes: `SHF1`, the view's digest, when it was written, then float32 values.

Big-endian header (20 bytes: magic 4, digest 8, written_at in ms 8), little-endian values. The time stands at a fixed
place so that the cache itself can compare two rows; values need no parsing: a hundred rows are one array.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.errors import FeatureStoreError
from serving.features.views import View

MAGIC = b"SHF1"
HEADER = struct.Struct(">4s8sQ")
WRITTEN_AT_OFFSET = 12
"""Where the 8 bytes of the time begin."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One row: values in the view's field order, float32, and when the values were true (UTC)."""

    values: npt.NDArray[np.float32]
    written_at: datetime


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of one view for some entities: (n, width) float32; `usable` says which are no defaults, shape (n,)."""

    values: npt.NDArray[np.float32]
    usable: npt.NDArray[np.bool_]


def encode(view: View, row: Row) -> bytes:
    """Give the bytes of a row.

    Raises:
        FeatureStoreError: another number of values than the view has fields, or values that are not finite.

    """
    if row.values.shape != (view.width,) or not np.isfinite(row.values).all():
        raise FeatureStoreError(
            f"view {view.name!r}: got {row.values.shape} values, perhaps not finite; "
            f"allowed {view.width} finite numbers; give every field a number"
        )
    return HEADER.pack(MAGIC, view.digest, _milliseconds(row.written_at)) + row.values.astype("<f4").tobytes()


def decode(view: View, data: bytes) -> Row:
    """Read one row.

    Raises:
        FeatureStoreError: the bytes are no row of this view.

    """
    if len(data) != HEADER.size + 4 * view.width or data[:WRITTEN_AT_OFFSET] != MAGIC + view.digest:
        raise FeatureStoreError(
            f"view {view.name!r}: got {len(data)} bytes that are no row of its fields; "
            f"allowed rows that streamhub features load writes; load the view again"
        )
    milliseconds = HEADER.unpack_from(data)[2]
    try:
        written_at = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise FeatureStoreError(
            f"view {view.name!r}: got a row of millisecond {milliseconds}, which is no date; "
            f"allowed rows that streamhub features load writes; load the view again"
        ) from None
    return Row(np.frombuffer(data, dtype="<f4", offset=HEADER.size), written_at)


def decode_many(view: View, found: Sequence[bytes | None], *, now: datetime) -> Rows:
    """Read rows of many entities; missing, stale and foreign ones become the view's defaults.

    A row is stale when it is older than `max_age_s`; one from the future is as fresh as one of now.
    """
    dtype = _row_type(view.width)
    blank = bytes(dtype.itemsize)
    size = dtype.itemsize
    packed = np.frombuffer(
        b"".join([data if data is not None and len(data) == size else blank for data in found]), dtype=dtype
    )
    oldest = max(_milliseconds(now) - int(view.spec.max_age_s * 1000), 0)
    usable = (packed["head"] == np.void(MAGIC + view.digest)) & (packed["written_at"] >= oldest)
    values = packed["values"]
    if not usable.all():
        values = np.where(usable[:, np.newaxis], values, view.defaults)
    return Rows(values, usable)


@cache
def _row_type(width: int) -> np.dtype[Any]:
    return np.dtype([("head", "V12"), ("written_at", ">u8"), ("values", "<f4", (width,))])


def _milliseconds(at: datetime) -> int:
    # whole numbers only: seconds as a float lose a millisecond far from 1970
    return (at - _EPOCH) // timedelta(milliseconds=1)
