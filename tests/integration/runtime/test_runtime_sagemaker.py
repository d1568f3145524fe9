"""SageMaker's container contract on `/invocations`: forms of bodies and answers, its headers, and what is logged."""

from __future__ import annotations

import gzip
import io
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper

from serving.spec.tensors import DType, TensorSpec

BINARY = "application/vnd.sagemaker-triton.binary+json"
ROWS = np.array([[1.0, -2.5, 0.25], [3.0, 4.0, 5.5]], dtype=np.float32)
DOUBLE = (ROWS * 2).tolist()
DOCUMENT = {"inputs": [{"name": "x", "shape": [2, 3], "datatype": "FP32", "data": ROWS.ravel().tolist()}]}


def doubled_graph() -> bytes:
    """Y = x + x, of three columns."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "toy",
        [helper.make_tensor_value_info("x", T.FLOAT, ["rows", 3])],
        [helper.make_tensor_value_info("y", T.FLOAT, ["rows", 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


@pytest.fixture(scope="module", name="tabular")
def tabular_fixture(start: Any) -> Iterator[Any]:
    changes = {
        "inputs": (TensorSpec(name="x", dtype=DType.FP32, shape=(3,)),),
        "outputs": (TensorSpec(name="y", dtype=DType.FP32, shape=(3,)),),
    }
    with start("linear", graph=doubled_graph(), **changes) as server:
        yield server


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


BODIES = {
    "application/json": json.dumps(DOCUMENT).encode(),
    "application/x-npy": npy(ROWS),
    "text/csv": b"1,-2.5,0.25\r\n3,4,5.5\r\n",
    "text/csv; charset=utf-8": b"1.0,-2.5,0.25\n3.0,4.0,5.5",
}


def read_json(answer: Any) -> list[list[float]]:
    output = answer.json()["outputs"][0]
    return [list(row) for row in np.array(output["data"]).reshape(output["shape"])]


def read_binary(answer: Any) -> list[list[float]]:
    media, _, size = answer.headers["content-type"].partition(";json-header-size=")
    assert media == BINARY
    assert json.loads(answer.content[: int(size)])["outputs"][0]["shape"] == [2, 3]
    return [list(row) for row in np.frombuffer(answer.content[int(size) :], dtype="<f4").reshape(2, 3)]


READERS = {
    "application/json": read_json,
    "application/x-npy": lambda answer: np.load(io.BytesIO(answer.content), allow_pickle=False).tolist(),
    "text/csv": lambda answer: [[float(field) for field in line.split(",")] for line in answer.text.splitlines()],
    BINARY: read_binary,
}


@pytest.mark.parametrize("sent", BODIES)
@pytest.mark.parametrize("wanted", READERS)
def test_every_form_goes_in_and_every_form_comes_out(tabular: Any, sent: str, wanted: str) -> None:
    with tabular.client() as http:
        answer = http.post("/invocations", content=BODIES[sent], headers={"content-type": sent, "accept": wanted})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].partition(";")[0] == wanted
    assert READERS[wanted](answer) == DOUBLE


def test_without_a_choice_the_answer_is_json(tabular: Any) -> None:
    with tabular.client() as http:
        for accept in ("*/*", "application/*", "text/csv;q=0.5, application/json"):
            answer = http.post(
                "/invocations", content=BODIES["text/csv"], headers={"content-type": "text/csv", "accept": accept}
            )
            assert answer.headers["content-type"] == "application/json", accept


def test_a_client_that_reads_json_alone_is_not_given_bytes(tabular: Any) -> None:
    document = json.dumps({**DOCUMENT, "parameters": {"binary_data_output": True}})
    with tabular.client() as http:
        for accept, media in (
            ("application/json", "application/json"),
            ("*/*", BINARY),
            (f"{BINARY}, */*;q=0.1", BINARY),
        ):
            answer = http.post("/invocations", content=document, headers={"accept": accept})
            assert answer.headers["content-type"].partition(";")[0] == media


def test_requests_of_one_batch_are_each_answered_in_their_own_form(tabular: Any) -> None:
    def ask(wanted: str) -> list[list[float]]:
        with tabular.client() as http:
            found = []
            for _ in range(15):
                answer = http.post(
                    "/invocations",
                    content=BODIES["application/x-npy"],
                    headers={"content-type": "application/x-npy", "accept": wanted},
                )
                assert answer.headers["content-type"].partition(";")[0] == wanted
                found.append(READERS[wanted](answer))
        assert all(each == DOUBLE for each in found)
        return found[0]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, list(READERS) * 2)) == [DOUBLE] * 8


REFUSED = {
    "another type": ({"content-type": "application/x-npy"}, npy(ROWS.astype(np.float64)), 400, "FP32"),
    "another shape": ({"content-type": "application/x-npy"}, npy(ROWS[:, :2].copy()), 400, "[rows, 3]"),
    "too many rows": ({"content-type": "application/x-npy"}, npy(np.zeros((100_000, 3), "<f4")), 400, "rows"),
    "a pickle": ({"content-type": "application/x-npy"}, npy(np.array([{}], dtype=object)), 400, "without pickle"),
    "a header row": ({"content-type": "text/csv"}, b"a,b,c\n1,2,3\n", 400, "header"),
    "two columns": ({"content-type": "text/csv"}, b"1,2\n", 400, "[rows, 3]"),
    "a picture": ({"content-type": "image/png"}, b"\x89PNG", 415, "text/csv"),
    "an answer as a picture": ({"accept": "image/png"}, BODIES["application/json"], 406, "text/csv"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_taken_is_refused_by_its_status_and_reason(tabular: Any, name: str) -> None:
    headers, body, status, text = REFUSED[name]
    with tabular.client() as http:
        answer = http.post("/invocations", content=body, headers=headers)
    assert (answer.status_code, text in answer.json()["error"]) == (status, True), answer.text


def test_a_bomb_is_a_body_too_large(tabular: Any) -> None:
    bomb = gzip.compress(bytes(60_000_000))
    with tabular.client() as http:
        answer = http.post("/invocations", content=bomb, headers={"content-encoding": "gzip"})
        assert answer.status_code == 413
        plain = gzip.compress(BODIES["application/json"])
        assert http.post("/invocations", content=plain, headers={"content-encoding": "gzip"}).status_code == 200


def test_custom_attributes_and_request_ids_come_back(tabular: Any) -> None:
    custom = 'trace=abc; user="7" ' + "~" * 1000
    sent = {"x-amzn-sagemaker-custom-attributes": custom, "x-amzn-sagemaker-inference-id": "i-1", "x-request-id": "r-1"}
    with tabular.client() as http:
        answer = http.post("/invocations", json=DOCUMENT, headers=sent)
        assert answer.headers["x-amzn-sagemaker-custom-attributes"] == custom
        assert answer.headers["x-request-id"] == "r-1"
        answer = http.post("/invocations", json=DOCUMENT, headers={"x-amzn-sagemaker-target-variant": "blue"})
        assert answer.status_code == 200
        assert "x-amzn-sagemaker-custom-attributes" not in answer.headers


def test_the_limit_of_bodies_may_be_that_of_older_endpoints(start: Any) -> None:
    with start("linear", "--max-body-bytes", "6291456") as server, server.client() as http:
        answer = http.post("/invocations", content=b"x" * 6_291_457)
        assert (answer.status_code, "6291456" in answer.text) == (413, True)
        assert http.post("/invocations", content=b"x" * 6_291_456).status_code == 400


def test_the_log_has_a_line_a_failure_with_its_id_and_nothing_of_any_body(start: Any) -> None:
    word = "s3cr3t"
    with start("linear", "--slow-ms", "0") as server, server.client() as http:
        bodies: list[Any] = [
            {"inputs": [{"name": word, "shape": [1, 4], "datatype": "FP32", "data": [word] * 4}]},
            {"inputs": [{"name": "x", "shape": [1, 4], "datatype": word, "data": [1] * 4}]},
            {"id": word, "inputs": word},
            {"inputs": [], "outputs": [{"name": word}], "parameters": {word: word}},
        ]
        failed = [http.post("/invocations", json=body) for body in bodies]
        failed += [http.post("/invocations", content=word), http.get(f"/metrics/none?key={word}")]
        failed += [http.post("/invocations", content=word, headers={"content-type": "text/csv"})]
        assert all(answer.status_code >= 400 for answer in failed)
        assert any(word in answer.text for answer in failed), "the client itself is told what it sent"
        good = {"inputs": [
            {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]},
            {"name": "pick", "shape": [1, 1], "datatype": "INT64", "data": [0]},
        ]}  # fmt: skip
        assert http.post("/invocations", json=good, headers={"x-request-id": "mine"}).status_code == 200
        server.process.send_signal(signal.SIGTERM)
        said = server.process.stderr.read()
    assert word not in said
    lines = [json.loads(line) for line in said.splitlines()]
    assert [line["request_id"] for line in lines] == [*(answer.headers["x-request-id"] for answer in failed), "mine"]
    assert [line["status"] for line in lines] == [*(answer.status_code for answer in failed), 200]
    assert lines[-1]["event"] == "request answered"


def test_a_raw_tensor_alone_is_a_request_of_tritons(tabular: Any) -> None:
    with tabular.client() as http:
        answer = http.post(
            "/v2/models/linear/infer", content=ROWS[0].tobytes(), headers={"inference-header-content-length": "0"}
        )
    assert answer.json()["outputs"][0]["data"] == DOUBLE[0]
