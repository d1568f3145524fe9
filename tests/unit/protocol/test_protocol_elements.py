"""Elements against NumPy, ml_dtypes and NVIDIA's own serialisation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tritonclient.utils as triton
from hypothesis import given
from hypothesis import strategies as st

from serving.errors import InvalidRequestError
from serving.protocol.elements import from_bfloat16, from_bytes, from_lists, to_bfloat16, to_bytes, to_jsonable
from serving.protocol.tensors import DTYPES

floats = st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), max_size=20)


@given(floats)
def test_bf16_is_rounded_as_ml_dtypes_rounds(values: list[float]) -> None:
    array = np.array(values, dtype=np.float32)
    expected = array.astype(ml_dtypes.bfloat16)
    got = from_bfloat16(to_bfloat16(array))
    np.testing.assert_array_equal(got, expected.astype(np.float32))


@given(floats)
def test_raw_bf16_is_read_as_ml_dtypes_writes_it(values: list[float]) -> None:
    expected = np.array(values, dtype=np.float32).astype(ml_dtypes.bfloat16)
    size = len(values)
    array = from_bytes(memoryview(expected.tobytes()), name="x", datatype="BF16", shape=[size], size=size)
    np.testing.assert_array_equal(from_bfloat16(array), expected.astype(np.float32))
    assert to_bytes(array) == expected.tobytes()


def test_bf16_in_json_is_the_number_it_stands_for() -> None:
    array = from_lists([1, 1.00390625, -3.5], name="x", datatype="BF16", shape=[3], size=3)
    assert array.dtype == DTYPES["BF16"]
    assert list(np.asarray(to_jsonable(array, name="x"))) == [1.0, 1.0, -3.5]
    with pytest.raises(InvalidRequestError, match="too large"):
        from_lists([3.4e38], name="x", datatype="BF16", shape=[1], size=1)


@given(st.lists(st.binary(max_size=9), max_size=9))
def test_bytes_are_written_and_read_as_nvidia_does(texts: list[bytes]) -> None:
    array = np.array(texts, dtype=np.object_)
    ours = to_bytes(array)
    theirs = triton.serialize_byte_tensor(array)
    assert ours == (theirs.item() if len(texts) else b"")
    back = from_bytes(memoryview(ours), name="x", datatype="BYTES", shape=[len(texts)], size=len(texts))
    assert list(back) == list(triton.deserialize_bytes_tensor(ours)) == texts


NUMERIC = [name for name in DTYPES if name not in {"BYTES", "BF16"}]


@pytest.mark.parametrize("name", NUMERIC)
def test_the_datatype_of_an_array_is_nvidias(name: str) -> None:
    assert triton.np_to_triton_dtype(DTYPES[name]) == name
    assert np.dtype(triton.triton_to_np_dtype(name)) == DTYPES[name]


@given(st.sampled_from(sorted(DTYPES)), st.binary(max_size=40), st.lists(st.integers(0, 9), max_size=4))
def test_any_bytes_are_a_tensor_or_refused(datatype: str, data: bytes, shape: list[int]) -> None:
    size = int(np.prod(shape, dtype=int))
    try:
        array = from_bytes(memoryview(data), name="x", datatype=datatype, shape=shape, size=size)
    except InvalidRequestError as error:
        assert "got" in str(error)  # noqa: PT017 - most bytes are refused, some are not
    else:
        assert list(array.shape) == shape
        assert to_bytes(array) == data


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.floats(), st.text(max_size=4), st.just({})
)
trees = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


@given(st.sampled_from(sorted(DTYPES)), trees, st.lists(st.integers(0, 4), max_size=3))
def test_any_json_is_a_tensor_or_refused(datatype: str, data: object, shape: list[int]) -> None:
    size = int(np.prod(shape, dtype=int))
    try:
        array = from_lists(data, name="x", datatype=datatype, shape=shape, size=size)
    except InvalidRequestError as error:
        assert "got" in str(error)  # noqa: PT017 - most values are refused, some are not
    else:
        assert list(array.shape) == shape
