"""Whatever comes in, a right answer or a refusal of the client's comes out: never an error of the server's own."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.protocol.served import ServedModel
from serving.protocol.tensors import DTYPES, Array
from serving.runtime.http import Connection
from serving.runtime.jobs import Job
from serving.runtime.journal import Journal
from serving.runtime.repository import Hosted, Repository
from serving.runtime.routes import ModelApp
from serving.runtime.settings import Limits
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import DType, TensorSpec

QUIET = Journal(slow_ms=1000, write=lambda _: None)
BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="


def model(name: str, inputs: dict[str, tuple[DType, tuple[int, ...]]]) -> ServedModel:
    return ServedModel(
        name=name,
        version="1.0.0",
        runtime=TritonRuntime(device="cpu"),
        inputs=tuple(TensorSpec(name=key, dtype=dtype, shape=shape) for key, (dtype, shape) in inputs.items()),
        outputs=(TensorSpec(name="rows", dtype=DType.FP32, shape=(1,)),),
        p99_ms=1.0,
        deadline_ms=1000.0,
    )


NUMBERS = model("numbers", {"x": (DType.FP32, (3,))})
MIXED = model("mixed", {"t": (DType.BYTES, (-1,)), "b": (DType.BOOL, (2,)), "k": (DType.INT16, ())})


class AtOnce:
    """A batcher that answers at once: each row with its own number."""

    def submit(self, job: Job) -> None:
        self.job = job

    def answer(self) -> None:
        job, self.job = self.job, None
        job.finish([np.arange(job.rows, dtype="<f4").reshape(-1, 1)])

    job: Any = None


class Transport:
    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        """Stay: what was written is looked at."""

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Go on: everything is here already."""

    resume_reading = pause_reading


class Wire(io.BytesIO):
    def makefile(self, *_: object, **__: object) -> Wire:
        return self

    def close(self) -> None:
        """Stay open: another answer may follow."""


class Complaints:
    """A loop that keeps what a connection complains of."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.said.append(context)


def sent(data: bytes) -> list[tuple[int, bytes, dict[str, str]]]:
    """Give the answers to bytes on a connection of a server with both models."""
    repository = Repository()
    for served in (NUMBERS, MIXED):
        hosted = Hosted(served.name, served, max_rows=8)
        hosted.batcher = cast("Any", AtOnce())
        repository.add(hosted)
    repository.default = repository.get("numbers")
    app = ModelApp(repository, limits=Limits(max_body_bytes=10_000), journal=QUIET)
    loop, transport = Complaints(), Transport()
    connection = Connection(app, cast("asyncio.AbstractEventLoop", loop))
    connection.connection_made(cast("Any", transport))
    connection.data_received(data)
    for hosted in repository:
        batcher = cast("Any", hosted.batcher)
        if batcher.job is not None:
            batcher.answer()
    assert loop.said == []
    return answers(transport.written)


def answers(written: bytes) -> list[tuple[int, bytes, dict[str, str]]]:
    found, wire = [], Wire(written)
    while wire.tell() < len(written):
        response = http.client.HTTPResponse(cast("Any", wire))
        response.begin()
        size = int(response.getheader("content-length", "0"))
        found.append((response.status, wire.read(size), {k.lower(): v for k, v in response.getheaders()}))
    return found


def posted(body: bytes, path: str, *headers: str) -> list[tuple[int, bytes, dict[str, str]]]:
    lines = [f"POST {path} HTTP/1.1", "host: x", f"content-length: {len(body)}", *headers, "", ""]
    return sent("\r\n".join(lines).encode("latin-1") + body)


def judged(found: Sequence[tuple[int, bytes, dict[str, str]]]) -> int:
    """Give the one status, once its body is known to be what the status says."""
    ((status, body, headers),) = found
    assert status == 200 or 400 <= status < 500, (status, body)
    if status != 200:
        assert list(json.loads(body)) == ["error"]
        assert "x-request-id" in headers
    return status


names = st.sampled_from(["x", "t", "b", "k", "y", "", "rows"]) | st.text(max_size=3)
sizes = st.integers(-2, 4) | st.sampled_from([1 << 31, 1 << 62, 1 << 70, -(1 << 70), 1.0, True, None, "1"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
parameters = st.dictionaries(
    st.sampled_from(
        [
            "binary_data_size",
            "binary_data",
            "binary_data_output",
            "timeout",
            "classification",
            "shared_memory_region",
            "sequence_id",
            "priority",
        ]
    ),
    anything | st.integers(0, 40),
    max_size=3,
)
tensors = st.fixed_dictionaries(
    {},
    optional={
        "name": names | anything,
        "datatype": st.sampled_from([*DTYPES, "FP31", ""]) | anything,
        "shape": st.lists(sizes, max_size=4) | anything,
        "data": st.lists(scalars, max_size=8) | anything,
        "parameters": parameters | anything,
    },
)
documents = (
    st.fixed_dictionaries(
        {},
        optional={
            "id": names | anything,
            "inputs": st.lists(tensors, max_size=4) | anything,
            "outputs": st.lists(tensors, max_size=3) | anything,
            "parameters": parameters | anything,
        },
    )
    | anything
)
paths = st.sampled_from(["/invocations", "/v2/models/numbers/infer", "/v2/models/mixed/infer"])


def dumped(document: object) -> bytes:
    return json.dumps(document, allow_nan=True).encode()


@settings(max_examples=100, deadline=None)
@given(documents, paths)
def test_any_json_is_answered_or_refused(document: object, path: str) -> None:
    judged(posted(dumped(document), path))


@settings(max_examples=100, deadline=None)
@given(documents, st.binary(max_size=40), st.integers(-3, 3) | st.sampled_from([None]), paths)
def test_any_header_and_raw_bytes_are_answered_or_refused(
    document: object, raw: bytes, off: int | None, path: str
) -> None:
    head = dumped(document)
    size = "" if off is None else str(len(head) + off)
    name = f"content-type: {BINARY}" if path == "/invocations" else "inference-header-content-length: "
    judged(posted(head + raw, path, name + size))


@settings(deadline=None)
@given(st.binary(max_size=60), st.text(st.characters(codec="latin-1", exclude_categories=["C"]), max_size=40), paths)
def test_any_type_and_any_body_are_answered_or_refused(body: bytes, kind: str, path: str) -> None:
    for header in ("content-type", "accept", "content-encoding", "inference-header-content-length"):
        judged(posted(body, path, f"{header}: {kind.strip()}"))
    for media in ("application/x-npy", "text/csv", f"{BINARY}{len(body)}"):
        judged(posted(body, path, f"content-type: {media}", f"accept: {kind.strip()}"))


arrays = st.integers(1, 8).flatmap(
    lambda rows: st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=rows * 3, max_size=rows * 3
    )
)


@settings(deadline=None)
@given(arrays, st.booleans(), st.sampled_from(["", "r-1", "ä"]))
def test_a_right_request_is_answered_in_rows_and_by_its_id(values: list[float], binary: bool, name: str) -> None:  # noqa: FBT001 - hypothesis
    array: Array = np.array(values, dtype="<f4").reshape(-1, 3)
    entry: dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": array.shape}
    raw = array.tobytes() if binary else b""
    entry |= {"parameters": {"binary_data_size": len(raw)}} if binary else {"data": values}
    head = orjson.dumps({"id": name, "inputs": [entry]})
    headers = [f"content-type: {BINARY}{len(head)}"] if binary else []
    ((status, body, _),) = posted(head + raw, "/invocations", *headers)
    document = json.loads(body)
    assert (status, document.get("id", "")) == (200, name)
    assert document["outputs"] == [
        {"name": "rows", "shape": [len(array), 1], "datatype": "FP32", "data": list(range(len(array)))}
    ]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_http_request_or_refused(data: bytes) -> None:
    for stream in (data, b"GET /ping HTTP/1.1\r\n" + data, b"POST /invocations HTTP/1.1\r\nhost: x\r\n\r\n" + data):
        for status, _, _ in sent(stream):
            assert status in {200, 400, 404, 405, 408, 413, 415, 417, 431, 501, 503, 505}
            assert status != 503 or b"/ping" in stream


def test_what_the_fuzz_sends_is_also_answered() -> None:
    """Or every one of its claims would be about refusals."""
    text: Any = {"name": "t", "datatype": "BYTES", "shape": [1, 1], "data": ["a"]}
    flags: Any = {"name": "b", "datatype": "BOOL", "shape": [1, 2], "data": [True, False]}
    number: Any = {"name": "k", "datatype": "INT16", "shape": [1], "data": [5]}
    assert judged(posted(dumped({"inputs": [text, flags, number]}), "/v2/models/mixed/infer")) == 200
    x: Any = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}
    assert judged(posted(dumped({"inputs": [x]}), "/invocations")) == 200


@given(st.binary(max_size=40))
def test_a_body_without_a_header_is_one_row_of_the_one_input(body: bytes) -> None:
    status = judged(posted(body, "/v2/models/numbers/infer", "inference-header-content-length: 0"))
    assert (status == 200) == (len(body) == 12)
    assert judged(posted(body, "/v2/models/mixed/infer", "inference-header-content-length: 0")) == 400
