"""Rows of numbers as `text/csv` (RFC 4180 without header, quotes or empty fields: a number needs none of them)."""

from __future__ import annotations

from collections.abc import Callable
from math import isinf
from typing import Any

import numpy as np
import orjson

from serving.errors import InvalidRequestError
from serving.protocol.elements import from_lists
from serving.protocol.parameters import short
from serving.protocol.tensors import DATATYPES, Array

CSV_TYPE = "text/csv"
_DUMP = orjson.OPT_SERIALIZE_NUMPY


def holds(dtype: np.dtype[Any]) -> bool:
    """Whether a field can carry such an element."""
    return dtype.kind in "iuf"


def decode_csv(body: bytes, *, name: str, dtype: np.dtype[Any]) -> Array:
    """Read `[rows, columns]`; lines end with LF or CRLF, the last one may end with the body.

    Raises:
        InvalidRequestError: a header, a field that is no number of this type, or rows of different lengths.

    """
    lines = _text(body).split("\n")
    if not lines[-1]:
        lines.pop()
    rows = [line.removesuffix("\r").split(",") for line in lines]
    columns = len(rows[0]) if rows else 0
    number: Callable[[str], float] = float if dtype.kind == "f" else int
    values: list[float] = []
    for at, row in enumerate(rows):
        if len(row) != columns:
            raise _refused(
                f"{len(row)} fields in row {at + 1} behind {columns} in row 1", "as many fields in every row"
            )
        try:
            values += [number(field) for field in row]
        except ValueError:
            raise _no_number(at, row, number) from None
    if any(map(isinf, values)):  # Python reads 1e999 as infinity
        raise _refused("a number without end", "finite numbers, and nan for none")
    shape = [len(rows), columns]
    return from_lists(values, name=name, datatype=DATATYPES[dtype], shape=shape, size=len(values))


def encode_csv(array: Array) -> bytes:
    """Give a line a row, each ended by LF; numbers are the shortest that are read as the same again."""
    table = np.ascontiguousarray(array).reshape(len(array), -1)
    if table.dtype.kind == "f" and not np.isfinite(table).all():
        return "".join(",".join(map(str, row)) + "\n" for row in table).encode()
    if table.dtype.itemsize == 2:  # noqa: PLR2004 - half floats and shorts, which orjson may not know
        table = table.astype(np.float32 if table.dtype.kind == "f" else np.int32)
    return orjson.dumps(table, option=_DUMP)[2:-2].replace(b"],[", b"\n") + b"\n"


def _text(body: bytes) -> str:
    # float and int take "1_0" and the digits of every script
    if not body or not body.isascii() or b"_" in body:
        raise _refused(short(body[:40].decode(errors="replace")), "ASCII lines of numbers, at least one")
    return body.decode()


def _no_number(at: int, row: list[str], number: Callable[[str], float]) -> InvalidRequestError:
    wrong = next(position for position, field in enumerate(row) if not _is(field, number))
    kind = "whole numbers" if number is int else "numbers"
    got = f"{short(row[wrong])} in row {at + 1}, column {wrong + 1}"
    if at == 0 and not any(_is(field, float) for field in row):
        return _refused(f"a header ({short(row[wrong])})", f"{kind} from the first row on; leave the header out")
    return _refused(got, kind)


def _is(field: str, number: Callable[[str], float]) -> bool:
    try:
        number(field)
    except ValueError:
        return False
    return True


def _refused(got: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(f"body: got {got}; allowed {allowed}; send other values as JSON")
