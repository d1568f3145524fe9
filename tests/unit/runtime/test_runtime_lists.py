"""Plain JSON read by what was remembered of bodies before, against the codec, which remembers nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.errors import InvalidRequestError
from serving.protocol import codec
from serving.protocol.served import ServedModel
from serving.runtime.checks import RequestCheck
from serving.runtime.plans import RequestReader
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import DType, TensorSpec

MAX_ROWS = 4
SERVED = ServedModel(
    name="toy",
    version="1.0.0",
    runtime=TritonRuntime(device="cpu"),
    inputs=(TensorSpec(name="x", dtype=DType.FP32, shape=(2,)),),
    outputs=(TensorSpec(name="y", dtype=DType.FP32, shape=(1,)),),
    p99_ms=1.0,
    deadline_ms=2.0,
)
FRAMES = (
    '{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":%s}]}',
    '{"inputs":[{"name":"x","data":%s,"shape":[2,2],"datatype":"FP32"}]}',
    '{"inputs":[{"data":%s,"name":"x","shape":[1,2],"datatype":"FP32"}]}',
    '{ "inputs": [{"name":"x","shape":[1,2],"datatype":"FP32","data":%s} ]}',
    '{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":%s,"data":[7,8]}]}',
    '{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":%s,"d\\u0061ta":[7,8]}]}',
    '{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"data":%s},"data":[7,8]}]}',
    '{"id":"\\"data\\":[1]","inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":%s}]}',
    '{"inputs":[{"name":"x","shape":[1,2],"datatype":"INT64","data":%s}]}',
    '{"inputs":[{"name":"x","shape":[9,2],"datatype":"FP32","data":%s}]}',
)
LISTS = st.one_of(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=5).map(orjson.dumps),
    st.lists(st.lists(st.integers(-9, 9), min_size=2, max_size=2), min_size=1, max_size=2).map(orjson.dumps),
    st.sampled_from(
        [b"[]", b"[1,2", b"[1,2]]", b'["a","b"]', b'["]",1]', b"[true,false]", b"[1e39,0]", b"[null,1]", b"[1,2],[3]"]
    ),
)


def by_codec(body: bytes, served: ServedModel) -> Any:
    try:
        request = codec.decode_request_parts(body, header_bytes=None)
        return RequestCheck(served, max_rows=MAX_ROWS).arrays(request)
    except InvalidRequestError as error:
        return str(error)


def by_reader(reader: RequestReader, body: bytes) -> Any:
    try:
        arrays, kind = reader.read(body, None)
    except InvalidRequestError as error:
        return str(error)
    assert kind.rows == len(arrays[0])
    return arrays


@pytest.mark.parametrize("dtype", [DType.FP32, DType.INT64, DType.UINT8, DType.BF16])
@given(asked=st.lists(st.tuples(st.sampled_from(FRAMES), LISTS), min_size=1, max_size=12))
def test_a_body_is_read_as_if_it_were_the_first(dtype: DType, asked: list[tuple[str, bytes]]) -> None:
    served = replace(SERVED, inputs=(replace(SERVED.inputs[0], dtype=dtype),))
    reader = RequestReader(served, max_rows=MAX_ROWS)
    for frame, numbers in asked:
        body = frame.replace('"FP32"', f'"{dtype.value}"').encode().replace(b"%s", numbers)
        found, expected = by_reader(reader, body), by_codec(body, served)
        if isinstance(expected, str):
            assert found == expected
        else:
            for mine, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(mine, theirs)
                assert mine.dtype == theirs.dtype


@pytest.mark.parametrize("shape", [(2,), (1, 2), ()])
def test_a_known_shape_is_read_with_its_own_numbers(shape: tuple[int, ...]) -> None:
    served = replace(SERVED, inputs=(replace(SERVED.inputs[0], shape=shape),))
    reader = RequestReader(served, max_rows=MAX_ROWS)
    for first in (1.0, 2.0, 3.0):
        array = np.full((3, *shape), first, dtype=np.float32)
        body = orjson.dumps(
            {"inputs": [{"name": "x", "shape": list(array.shape), "datatype": "FP32", "data": array.ravel().tolist()}]}
        )
        np.testing.assert_array_equal(reader.read(body, None)[0][0], array)
