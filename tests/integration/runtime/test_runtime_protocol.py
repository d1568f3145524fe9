"""The two protocols over real sockets; NVIDIA's client is the independent reading of them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # gevent warns on import about what it patches
    import tritonclient.http as triton

BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="


def linear_inputs(x: np.ndarray, pick: np.ndarray, *, binary: bool) -> list[Any]:
    inputs = [triton.InferInput("x", list(x.shape), "FP32"), triton.InferInput("pick", list(pick.shape), "INT64")]
    inputs[0].set_data_from_numpy(x, binary_data=binary)
    inputs[1].set_data_from_numpy(pick, binary_data=binary)
    return inputs


def expected(x: np.ndarray, pick: np.ndarray) -> np.ndarray:
    weights, table = np.array([1.0, -2.0, 0.5, 4.0]), np.array([0.0, 10.0, 20.0])
    return (x.astype(np.float64) @ weights)[:, None] + table[pick]


@pytest.fixture(name="client")
def client_fixture(linear: Any) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{linear.port}") as client:
        yield client


@pytest.mark.parametrize("rows", [1, 3, 16])
@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_nvidias_client_gets_the_right_numbers(client: Any, rows: int, binary_in: bool, binary_out: bool) -> None:  # noqa: FBT001 - pytest's
    generator = np.random.default_rng(rows)
    x, pick = generator.random((rows, 4), dtype=np.float32), generator.integers(0, 3, (rows, 1))
    outputs = [triton.InferRequestedOutput("y", binary_data=binary_out)]
    result = client.infer("linear", linear_inputs(x, pick, binary=binary_in), outputs=outputs, request_id="r-7")
    np.testing.assert_allclose(result.as_numpy("y"), expected(x, pick), rtol=1e-6)
    assert result.as_numpy("y").dtype == np.float32
    response = result.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == ("r-7", "linear", "2.1.0")


def test_nvidias_client_finds_the_model_well(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("linear")
    assert client.is_model_ready("linear", "1")
    assert not client.is_model_ready("nobody")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    metadata = client.get_model_metadata("linear", "2.1.0")
    assert metadata["inputs"][0] == {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    assert metadata["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}]


def test_nvidias_client_speaks_sagemakers_binary_type(linear: Any) -> None:
    x, pick = np.ones((2, 4), dtype=np.float32), np.array([[1], [2]])
    body, header_size = triton.InferenceServerClient.generate_request_body(
        linear_inputs(x, pick, binary=True), outputs=[triton.InferRequestedOutput("y", binary_data=True)]
    )
    with linear.client() as http:
        answer = http.post("/invocations", content=body, headers={"content-type": f"{BINARY}{header_size}"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(BINARY)
    size = int(answer.headers["content-type"].removeprefix(BINARY))
    result = triton.InferenceServerClient.parse_response_body(answer.content, header_length=size)
    np.testing.assert_allclose(result.as_numpy("y"), expected(x, pick))


def test_texts_and_sizes_that_vary_go_both_ways(start: Any) -> None:
    texts = np.array([["äöü", "plain", ""], ["日本", "a\0b", "x" * 500]], dtype=object)
    tokens = np.arange(10, dtype=np.int32).reshape(2, 5)
    with start("text") as server, triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        for binary in (True, False):
            inputs = [triton.InferInput("text", [2, 3], "BYTES"), triton.InferInput("tokens", [2, 5], "INT32")]
            inputs[0].set_data_from_numpy(texts, binary_data=binary)
            inputs[1].set_data_from_numpy(tokens, binary_data=binary)
            outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("same", "again")]
            result = client.infer("text", inputs, outputs=outputs)
            back = [text if isinstance(text, str) else text.decode() for text in result.as_numpy("same").flat]
            assert back == list(texts.flat)
            np.testing.assert_array_equal(result.as_numpy("again"), tokens)


def test_one_output_may_be_asked_for(start: Any) -> None:
    inputs = [
        {"name": "text", "shape": [1, 1], "datatype": "BYTES", "data": ["a"]},
        {"name": "tokens", "shape": [1, 1], "datatype": "INT32", "data": [5]},
    ]
    with start("text") as server, server.client() as http:
        answer = http.post("/invocations", json={"inputs": inputs, "outputs": [{"name": "again"}]})
        assert [output["name"] for output in answer.json()["outputs"]] == ["again"]
        answer = http.post("/invocations", json={"inputs": inputs, "outputs": [{"name": "other"}]})
        assert answer.status_code == 400


def test_any_other_type_is_json_as_in_tritons_frontend(linear: Any) -> None:
    body = json.dumps(
        {
            "inputs": [
                {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]},
                {"name": "pick", "shape": [1, 1], "datatype": "INT64", "data": [0]},
            ]
        }
    )
    with linear.client() as http:
        for kind in ("application/json", "application/octet-stream", "text/plain"):
            answer = http.post("/invocations", content=body, headers={"content-type": kind})
            assert answer.json()["outputs"] == [{"name": "y", "shape": [1, 1], "datatype": "FP32", "data": [14.5]}]
            assert answer.headers["content-type"] == "application/json"
        assert http.post("/invocations?x=1", content=body).status_code == 200


def test_ping_is_sagemakers(linear: Any) -> None:
    with linear.client() as http:
        assert (http.get("/ping").status_code, http.get("/ping").content) == (200, b"")
        assert (http.head("/ping").status_code, http.head("/metrics").content) == (200, b"")
