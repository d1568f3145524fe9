"""NPY, CSV, compression and `Accept` against NumPy, the csv module, zlib, gzip and the words of the RFCs."""

from __future__ import annotations

import csv
import gzip
import io
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from serving.errors import InvalidRequestError
from serving.protocol.accept import acceptable
from serving.protocol.inflate import TooLargeError, inflate
from serving.protocol.npy import decode_npy, encode_npy
from serving.protocol.tabular import decode_csv, encode_csv
from serving.protocol.tensors import DTYPES

NUMBERS = [name for name in DTYPES if name not in {"BYTES", "BF16"}]
shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def saved(array: np.ndarray, **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


@given(st.data(), st.sampled_from(NUMBERS), shapes, st.sampled_from("<>"), st.booleans())
def test_an_array_is_read_as_numpy_wrote_it_whatever_its_order(
    data: st.DataObject,
    name: str,
    shape: tuple[int, ...],
    order: str,
    fortran: bool,  # noqa: FBT001 - hypothesis
) -> None:
    array = data.draw(arrays.arrays(DTYPES[name].newbyteorder(order), shape))
    got = decode_npy(saved(np.asfortranarray(array) if fortran else array))
    assert got.dtype == DTYPES[name]
    assert got.flags.c_contiguous
    np.testing.assert_array_equal(got, array)


@given(st.data(), st.sampled_from(NUMBERS), shapes)
def test_an_array_is_written_for_numpy_without_pickle(data: st.DataObject, name: str, shape: tuple[int, ...]) -> None:
    array = data.draw(arrays.arrays(DTYPES[name], shape))
    np.testing.assert_array_equal(np.load(io.BytesIO(encode_npy(array)), allow_pickle=False), array)


GOOD = saved(np.arange(6, dtype="<f4").reshape(2, 3))
REFUSED = {
    "nothing": b"",
    "no magic": b"\x93NUMPX" + GOOD[6:],
    "a version that is none": GOOD[:6] + b"\x09\x00" + GOOD[8:],
    "an archive of arrays": b"PK\x03\x04" + GOOD,
    "a pickle": saved(np.array([{"a": 1}], dtype=object), allow_pickle=True),
    "texts": saved(np.array(["a", "bc"])),
    "complex numbers": saved(np.array([1j])),
    "times": saved(np.array(["2020-01-01"], dtype="datetime64[D]")),
    "records": saved(np.zeros(2, dtype=[("bf16", "<u2")])),
    "less than the header says": GOOD[:-1],
    "more than the header says": GOOD + b"\0",
    "a truth value of 2": saved(np.array([True]))[:-1] + b"\x02",
    "a header that is cut": GOOD[:40],
    "a header of nested lists": GOOD[:10] + b"[" * 60 + GOOD[70:],
    "sizes beyond any memory": GOOD.replace(b"(2, 3), }", b"(1<<40,)}"),
    "negative sizes": GOOD.replace(b"(2, 3)", b"(-2,-3)").replace(b" \n", b"\n", 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_array_of_numbers_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="body: got"):
        decode_npy(REFUSED[name])


def test_a_size_takes_no_memory_that_the_body_does_not_have() -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000), }"
    body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    tracemalloc.start()
    with pytest.raises(InvalidRequestError):
        decode_npy(body)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@given(st.binary(max_size=200))
def test_any_bytes_behind_the_magic_are_an_array_or_refused(rest: bytes) -> None:
    for body in (rest, b"\x93NUMPY\x01\x00" + rest, GOOD[: len(rest)] + rest):
        try:
            assert decode_npy(body).dtype in DTYPES.values()
        except InvalidRequestError as error:
            assert "body: got" in str(error)  # noqa: PT017 - most bytes are refused, some are not


@given(st.data(), st.sampled_from(["FP32", "FP64", "INT32", "INT64", "UINT8", "FP16", "INT16"]))
def test_rows_are_read_as_the_csv_module_wrote_them(data: st.DataObject, name: str) -> None:
    kinds: dict[str, Any] = {"allow_infinity": False} if name.startswith("FP") else {}
    dtype = DTYPES[name]
    shape = (data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4)))
    array = data.draw(arrays.arrays(dtype, shape, elements=arrays.from_dtype(dtype, **kinds)))
    stream = io.StringIO()
    csv.writer(stream).writerows(array.tolist())
    for text in (stream.getvalue(), stream.getvalue().replace("\r\n", "\n").rstrip("\n")):
        got = decode_csv(text.encode(), name="x", dtype=dtype)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, array)


@given(st.data(), st.sampled_from(["FP32", "FP64", "FP16", "INT32", "INT64", "UINT8", "INT16", "UINT16"]))
def test_rows_are_written_so_that_the_csv_module_reads_the_same(data: st.DataObject, name: str) -> None:
    dtype = DTYPES[name]
    array = data.draw(arrays.arrays(dtype, (data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4)))))
    rows = list(csv.reader(io.StringIO(encode_csv(array).decode())))
    np.testing.assert_array_equal(
        np.array([[float(field) for field in row] for row in rows], dtype=dtype)
        if dtype.kind == "f"
        else np.array([list(map(int, row)) for row in rows], dtype=dtype),
        array,
    )


def test_one_number_a_row_is_one_column() -> None:
    assert encode_csv(np.array([1.5, 2.0], dtype="<f4")) == b"1.5\n2.0\n"


ROWS = {
    "nothing": (b"", "at least one"),
    "a header": (b"a,b\n1,2\n", "header"),
    "a quoted header": (b'"a","b"\n1,2\n', "header"),
    "an empty field": (b"1,\n", "row 1, column 2"),
    "a text": (b"1,2\n3,x\n", "row 2, column 2"),
    "a short row": (b"1,2\n3\n", "row 2"),
    "an empty line": (b"1,2\n\n3,4\n", "row 2"),
    "an underscore": (b"1_0,2\n", "ASCII"),
    "digits of another script": ("\u0661,2\n".encode(), "ASCII"),
    "bytes that are no text": (b"\xff\xfe1,2", "ASCII"),
    "more than the type holds": (b"1e39,2\n", "FP32"),
    "more than any float holds": (b"1e999,2\n", "without end"),
    "another separator": (b"1;2\n", "row 1, column 1|header"),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_are_no_rows_of_numbers_is_refused_by_place(name: str) -> None:
    body, text = ROWS[name]
    with pytest.raises(InvalidRequestError, match=text):
        decode_csv(body, name="x", dtype=DTYPES["FP32"])


def test_a_fraction_is_no_whole_number() -> None:
    with pytest.raises(InvalidRequestError, match=r"'1\.0' in row 1, column 1"):
        decode_csv(b"1.0\n", name="x", dtype=DTYPES["INT64"])


@given(st.binary(max_size=2000))
def test_a_compressed_body_is_what_was_compressed(plain: bytes) -> None:
    assert inflate(gzip.compress(plain), "gzip", max_bytes=2000) == plain
    assert inflate(zlib.compress(plain), "deflate", max_bytes=2000) == plain


def test_a_bomb_stops_at_the_limit() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    tracemalloc.start()
    with pytest.raises(TooLargeError):
        inflate(bomb, "gzip", max_bytes=1000)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


BROKEN = {
    "cut": gzip.compress(b"abc" * 100)[:-4],
    "damaged": gzip.compress(b"abc" * 100)[:-8] + bytes(8),
    "another coding": zlib.compress(b"abc"),
    "something behind it": gzip.compress(b"abc") + b"x",
    "two of them": gzip.compress(b"abc") * 2,
    "nothing": b"",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_compressed_body_that_is_not_whole_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="gzip"):
        inflate(BROKEN[name], "gzip", max_bytes=10_000)


J, N, C = "application/json", "application/x-npy", "text/csv"
ACCEPTED = {
    # the examples of RFC 9110 §12.5.1, in our types, then its corners
    "application/*;q=0.2, text/csv": [C, J, N],
    "text/plain; q=0.5, application/json, text/x-dvi; q=0.8, application/x-npy": [J, N],
    "application/*;q=0.3, application/json;q=0.7, */*;q=0.5": [J, C, N],
    "*/*": [J, N, C],
    "application/json": [J],
    "APPLICATION/JSON ; charset=utf-8": [J],
    "application/json;q=0, */*": [N, C],
    "application/json;q=0.1,application/x-npy;q=0.9": [N, J],
    "image/png": [],
    "": [],
    "json": [],
    "application/json;q=2": [],
    "application/json;q=x, text/csv": [C],
    ",;,/,": [],
}


@pytest.mark.parametrize("header", ACCEPTED)
def test_the_most_wanted_form_comes_first(header: str) -> None:
    assert acceptable(header, [J, N, C]) == ACCEPTED[header]


@given(st.text(max_size=60))
def test_any_accept_header_chooses_among_the_offers(header: str) -> None:
    assert set(acceptable(header, [J, N, C])) <= {J, N, C}
