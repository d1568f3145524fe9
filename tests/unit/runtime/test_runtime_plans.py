"""The quick ways of reading and writing against the codec, which alone decides what is right."""

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
from serving.protocol.tensors import DTYPES, InferRequest, InferResponse, Tensor
from serving.runtime.asked import Asked
from serving.runtime.plans import AnswerWriter, RequestReader
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import DType, TensorSpec

SERVED = ServedModel(
    name="toy",
    version="1.0.0",
    runtime=TritonRuntime(device="cpu"),
    inputs=(
        TensorSpec(name="x", dtype=DType.FP32, shape=(3,)),
        TensorSpec(name="k", dtype=DType.INT64, shape=(2, 1)),
    ),
    outputs=(
        TensorSpec(name="y", dtype=DType.FP32, shape=(2,)),
        TensorSpec(name="n", dtype=DType.INT32, shape=(1,)),
    ),
    p99_ms=1.0,
    deadline_ms=2.0,
)
MAX_ROWS = 8


def request(rows: int, seed: int, **changes: Any) -> InferRequest:
    generator = np.random.default_rng(seed)
    x = Tensor("x", generator.random((rows, 3), dtype=np.float32))
    k = Tensor("k", generator.integers(-9, 9, (rows, 2, 1)))
    return replace(InferRequest(inputs=(k, x) if seed % 2 else (x, k)), **changes)


@given(
    st.lists(
        st.tuples(st.integers(1, MAX_ROWS), st.integers(0, 99), st.booleans(), st.sampled_from(["", "", "id-1"])),
        max_size=12,
    ),
    st.sampled_from([(), ("y",), ("n", "y")]),
)
def test_every_request_is_read_as_the_codec_reads_it(
    asked: list[tuple[int, int, bool, str]], outputs: tuple[str, ...]
) -> None:
    reader = RequestReader(SERVED, max_rows=MAX_ROWS)
    for rows, seed, binary, name in asked:
        sent = request(rows, seed, id=name, outputs=outputs, binary_output=binary)
        body, kind = codec.encode_request(sent, binary=binary)
        arrays, read = reader.read(body, codec.header_size(kind, body_size=len(body)))
        assert (read.rows, read.signature) == (rows, ())
        assert (read.asked.id, read.asked.outputs, read.asked.binary) == (name, outputs, binary)
        tensors = {tensor.name: tensor.array for tensor in sent.inputs}
        for got, expected in zip(arrays, ("x", "k"), strict=True):
            assert got.dtype == tensors[expected].dtype
            np.testing.assert_array_equal(got, tensors[expected])


def mutated(document: dict[str, Any], path: list[object], value: object) -> dict[str, Any]:
    inner: Any = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


X = ["inputs", 0]
WRONG = [
    ([*X, "name"], "k"),
    ([*X, "name"], 7),
    ([*X, "datatype"], "FP64"),
    ([*X, "shape"], [2, 4]),
    ([*X, "shape"], [2, 3.0]),
    ([*X, "shape"], [True, 3]),
    ([*X, "shape"], [0, 3]),
    ([*X, "shape"], [-2, -3]),
    ([*X, "shape"], [9, 3]),
    ([*X, "shape"], 6),
    ([*X, "data"], [1, 2, 3]),
    ([*X, "data"], [[1, 2], [3, 4], [5, 6]]),
    ([*X, "data"], ["1"] * 6),
    ([*X, "data"], [1e39] * 6),
    ([*X, "data"], {}),
    (["inputs", 1, "data"], [0.5] * 4),
    (["inputs", 1, "shape"], [1, 2, 1]),
    (["inputs"], {}),
    (["inputs"], []),
    (["outputs"], [{"name": "z"}]),
    (["id"], 5),
]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=str)
def test_whatever_is_wrong_with_json_is_said_by_the_codec_or_the_check(path: list[object], value: object) -> None:
    document = orjson.loads(codec.encode_request(request(2, 0), binary=False)[0])
    with pytest.raises(InvalidRequestError, match="got"):
        RequestReader(SERVED, max_rows=MAX_ROWS).read(orjson.dumps(mutated(document, path, value)), None)


def test_an_extra_key_and_nested_lists_are_read_by_the_codec() -> None:
    document = orjson.loads(codec.encode_request(request(2, 0), binary=False)[0])
    x = np.array(document["inputs"][0]["data"], dtype=np.float32).reshape(2, 3)
    document["inputs"][0] |= {"data": x.tolist(), "parameters": {}}
    arrays, _ = RequestReader(SERVED, max_rows=MAX_ROWS).read(orjson.dumps(document), None)
    np.testing.assert_array_equal(arrays[0], x)


def test_a_known_head_with_other_raw_bytes_behind_it_is_checked_again() -> None:
    reader = RequestReader(SERVED, max_rows=MAX_ROWS)
    body, kind = codec.encode_request(request(2, 0), binary=True)
    size = codec.header_size(kind, body_size=len(body))
    reader.read(body, size)
    for wrong in (body[:-1], body + b"\0"):
        with pytest.raises(InvalidRequestError):
            reader.read(wrong, size)
    reader.read(body, size)


def test_values_in_a_head_are_never_remembered() -> None:
    """Half binary, half JSON: the JSON half differs though the raw half is the same."""
    reader = RequestReader(SERVED, max_rows=MAX_ROWS)
    for value in (1, 2):
        head = orjson.dumps(
            {
                "inputs": [
                    {"name": "x", "shape": [1, 3], "datatype": "FP32", "parameters": {"binary_data_size": 12}},
                    {"name": "k", "shape": [1, 2, 1], "datatype": "INT64", "data": [value, value]},
                ]
            }
        )
        arrays, _ = reader.read(head + bytes(12), len(head))
        assert arrays[1].tolist() == [[[value], [value]]]


def test_truth_values_and_texts_are_looked_at_in_every_request() -> None:
    served = replace(SERVED, inputs=(TensorSpec(name="b", dtype=DType.BOOL, shape=(1,)),))
    reader = RequestReader(served, max_rows=MAX_ROWS)
    body, kind = codec.encode_request(InferRequest(inputs=(Tensor("b", np.array([[True]])),)), binary=True)
    size = codec.header_size(kind, body_size=len(body))
    reader.read(body, size)
    with pytest.raises(InvalidRequestError, match="0 or 1"):
        reader.read(body[:-1] + b"\2", size)


def test_sizes_that_vary_make_the_signature() -> None:
    served = replace(SERVED, inputs=(TensorSpec(name="t", dtype=DType.FP32, shape=(-1, 2)),))
    reader = RequestReader(served, max_rows=MAX_ROWS)
    for size in (1, 5, 1):
        sent = InferRequest(inputs=(Tensor("t", np.zeros((3, size, 2), dtype=np.float32)),))
        for binary in (False, True):
            body, kind = codec.encode_request(sent, binary=binary)
            _, read = reader.read(body, codec.header_size(kind, body_size=len(body)))
            assert (read.signature, read.rows) == (((size, 2),), 3)


@given(
    st.lists(
        st.tuples(
            st.integers(1, MAX_ROWS),
            st.sampled_from(["", "", "id-1"]),
            st.sampled_from([(), (), ("y",), ("n",)]),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.integers(0, 9),
)
def test_every_answer_is_written_as_the_codec_writes_it(
    asked: list[tuple[int, str, tuple[str, ...], bool]], seed: int
) -> None:
    writer = AnswerWriter(SERVED)
    generator = np.random.default_rng(seed)
    for rows, name, outputs, binary in asked:
        # what the batcher gives: rows of a larger array
        y = generator.random((rows + 4, 2), dtype=np.float32)[2 : 2 + rows]
        n = generator.integers(0, 9, (rows, 1)).astype(DTYPES["INT32"])
        tensors = tuple(t for t in (Tensor("y", y), Tensor("n", n)) if not outputs or t.name in outputs)
        response = InferResponse(model_name="toy", model_version="1.0.0", id=name, outputs=tensors)
        expected = codec.encode_response_parts(response, binary=binary)
        assert writer.write([y, n], Asked(name, outputs, binary)) == expected


@given(st.integers(1, 9), st.booleans(), st.integers(0, 9), st.sampled_from(["toy", "100% %s"]))
def test_every_row_written_together_is_as_it_is_written_alone(rows: int, binary: bool, seed: int, name: str) -> None:  # noqa: FBT001
    generator = np.random.default_rng(seed)
    y = generator.random((2, rows), dtype=np.float32).T  # not contiguous, as a graph may give it
    n = generator.integers(-9, 9, (rows, 1)).astype(DTYPES["INT32"])
    asked = Asked(binary=binary)
    written = AnswerWriter(replace(SERVED, name=name)).each([y, n], asked)
    assert written is not None
    bodies, header_bytes = written
    alone = AnswerWriter(replace(SERVED, name=name))
    assert [(body, header_bytes) for body in bodies] == [
        alone.write([y[at : at + 1], n[at : at + 1]], asked) for at in range(rows)
    ]


@pytest.mark.parametrize("binary", [False, True])
def test_rows_without_elements_are_written_together(*, binary: bool) -> None:
    y, n = np.zeros((3, 0), dtype=np.float32), np.zeros((3, 1), dtype=np.int32)
    written = AnswerWriter(SERVED).each([y, n], Asked(binary=binary))
    assert written is not None
    alone = AnswerWriter(SERVED).write([y[:1], n[:1]], Asked(binary=binary))
    assert [(body, written[1]) for body in written[0]] == [alone] * 3


@pytest.mark.parametrize("asked", [Asked(id="1"), Asked(outputs=("y",)), Asked()], ids=["id", "outputs", "not finite"])
def test_what_differs_from_row_to_row_is_not_written_together(asked: Asked) -> None:
    y, n = np.array([[1.0, 2.0], [np.inf, 1.0]], dtype=np.float32), np.zeros((2, 1), dtype=np.int32)
    assert AnswerWriter(SERVED).each([y, n], asked) is None


def test_a_number_that_json_cannot_carry_is_refused_and_binary_carries_it() -> None:
    writer = AnswerWriter(SERVED)
    outputs = [np.array([[1.0, np.nan]], dtype=np.float32), np.array([[1]], dtype=np.int32)]
    with pytest.raises(InvalidRequestError, match="'y'"):
        writer.write(outputs, Asked())
    assert np.isnan(np.frombuffer(writer.write(outputs, Asked(binary=True))[0][-8:-4], dtype="<f4"))[0]
