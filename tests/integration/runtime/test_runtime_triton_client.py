"""NVIDIA's own client, unchanged, against the Open Inference Protocol as Triton extends it."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from tritonclient.grpc import model_config_pb2

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # gevent warns on import about what it patches
    import tritonclient.http as triton
    import tritonclient.http.aio as triton_aio
    from tritonclient.utils import InferenceServerException

X = np.ones((2, 4), dtype=np.float32)
PICK = np.array([[1], [2]])
EXPECTED = np.array([[13.5], [23.5]])  # 1 - 2 + 0.5 + 4, and what the table holds at 1 and at 2


def inputs(*, binary: bool = True, pick: np.ndarray = PICK) -> list[Any]:
    tensors = [triton.InferInput("x", [2, 4], "FP32"), triton.InferInput("pick", [2, 1], "INT64")]
    tensors[0].set_data_from_numpy(X, binary_data=binary)
    tensors[1].set_data_from_numpy(pick, binary_data=binary)
    return tensors


@pytest.fixture(name="client")
def client_fixture(linear: Any) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{linear.port}", concurrency=4) as client:
        yield client


def test_the_server_names_its_extensions_as_triton_does(client: Any) -> None:
    metadata = client.get_server_metadata()
    assert metadata["name"] == "streamhub"
    assert {"binary_tensor_data", "model_configuration", "statistics", "schedule_policy"} <= {*metadata["extensions"]}


@pytest.mark.parametrize("version", ["", "1", "2.1.0"])
def test_the_configuration_is_tritons_own_message(client: Any, version: str) -> None:
    config = json_format.ParseDict(client.get_model_config("linear", version), model_config_pb2.ModelConfig())
    assert (config.name, config.backend, config.platform) == ("linear", "onnxruntime", "onnxruntime_onnx")
    assert config.max_batch_size == 16
    assert config.parameters["streamhub_version"].string_value == "2.1.0"
    assert [(t.name, t.data_type, [*t.dims]) for t in config.input] == [
        ("x", model_config_pb2.TYPE_FP32, [4]),
        ("pick", model_config_pb2.TYPE_INT64, [1]),
    ]
    assert [(t.name, t.data_type, [*t.dims]) for t in config.output] == [("y", model_config_pb2.TYPE_FP32, [1])]
    assert config.dynamic_batching.default_queue_policy.max_queue_size == 256


def statistics(client: Any) -> dict[str, Any]:
    (document,) = client.get_inference_statistics("linear")["model_stats"]
    assert document == client.get_inference_statistics("linear", "1")["model_stats"][0]
    assert document == client.get_inference_statistics()["model_stats"][0]
    return dict(document)


def test_statistics_count_requests_rows_and_executions_with_their_times(start: Any) -> None:
    with start("linear") as server, triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        before = statistics(client)
        assert (before["name"], before["version"]) == ("linear", "1")
        assert before["inference_count"] == before["execution_count"] == 0
        for _ in range(3):
            client.infer("linear", inputs())
        with pytest.raises(InferenceServerException):
            client.infer("linear", inputs()[:1])
        after = statistics(client)
        assert (after["inference_count"], after["execution_count"]) == (6, 3)
        assert after["last_inference"] > before["last_inference"]
        steps = after["inference_stats"]
        assert (steps["success"]["count"], steps["fail"]["count"]) == (3, 1)
        assert steps["success"]["ns"] > 0
        assert steps["fail"]["ns"] > 0
        for step in ("queue", "compute_input", "compute_infer", "compute_output"):
            assert steps[step]["count"] == 3
            assert steps[step]["ns"] < steps["success"]["ns"]
            assert steps[step]["ns"] > 0 or step == "queue"  # alone on an idle server it waits for nothing
        (batch,) = after["batch_stats"]
        assert (batch["batch_size"], batch["compute_infer"]["count"]) == (2, 3)


def test_many_requests_at_once_get_each_their_own_answer(client: Any) -> None:
    picks = [np.full((2, 1), number % 3) for number in range(20)]
    waiting = [client.async_infer("linear", inputs(pick=pick)) for pick in picks]
    for pick, request in zip(picks, waiting, strict=True):
        np.testing.assert_allclose(request.get_result().as_numpy("y"), 3.5 + 10.0 * pick)


def test_its_asyncio_client_is_answered(linear: Any) -> None:
    async def ask() -> tuple[Any, Any]:
        async with triton_aio.InferenceServerClient(f"127.0.0.1:{linear.port}") as client:
            assert await client.is_server_ready()
            results = await asyncio.gather(*(client.infer("linear", inputs()) for _ in range(5)))
            return results, await client.get_model_config("linear")

    results, config = asyncio.run(ask())
    for result in results:
        np.testing.assert_allclose(result.as_numpy("y"), EXPECTED)
    assert config["name"] == "linear"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_its_compression_of_bodies_is_understood(client: Any, coding: str) -> None:
    for binary in (True, False):
        result = client.infer(
            "linear",
            inputs(binary=binary),
            request_compression_algorithm=coding,
            response_compression_algorithm=coding,
        )
        np.testing.assert_allclose(result.as_numpy("y"), EXPECTED)


def test_a_timeout_in_microseconds_is_a_deadline(slow: Any) -> None:
    tensor = triton.InferInput("steps", [1, 1], "INT64")
    tensor.set_data_from_numpy(np.array([[300_000]]))
    with triton.InferenceServerClient(f"127.0.0.1:{slow.port}", concurrency=2, network_timeout=60) as client:
        busy = client.async_infer("slow", [tensor])
        slow.until("streamhub_running_batches", 1)
        with pytest.raises(InferenceServerException, match=r"deadline of 1 ms") as error:
            client.infer("slow", [tensor], timeout=1000)
        assert error.value.status() in {"503", "504"}
        assert busy.get_result().as_numpy("y") is not None


def refused(client: Any, model: str = "linear", tensors: list[Any] | None = None, **options: Any) -> str:
    with pytest.raises(InferenceServerException) as error:
        client.infer(model, inputs() if tensors is None else tensors, **options)
    return f"{error.value.status()} {error.value.message()}"


def test_errors_reach_its_callers_in_our_words(client: Any) -> None:
    assert refused(client, "nobody").startswith("404 path: got '/v2/models/nobody/infer'")
    assert refused(client, model_version="9").startswith("404 path: got '/v2/models/linear/versions/9/infer'")
    assert "allowed exactly 'x', 'pick'" in refused(client, tensors=inputs()[:1])
    assert "sequence_id" in refused(client, sequence_id=7)
    assert "classification" in refused(client, outputs=[triton.InferRequestedOutput("y", class_count=2)])
    assert refused(client, tensors=inputs(pick=np.array([[9], [9]]))).startswith("500 model linear")


def test_what_is_not_here_says_so(client: Any) -> None:
    for ask in (
        client.get_system_shared_memory_status,
        client.get_cuda_shared_memory_status,
        client.get_trace_settings,
        client.get_log_settings,
    ):
        with pytest.raises(InferenceServerException, match="extension"):
            ask()


def test_a_priority_and_parameters_of_ones_own_change_nothing(client: Any) -> None:
    result = client.infer("linear", inputs(), priority=3, parameters={"tenant": "a", "try": 2}, request_id="r")
    np.testing.assert_allclose(result.as_numpy("y"), EXPECTED)
    assert result.get_response()["id"] == "r"


def test_an_answer_may_come_in_chunks_when_it_is_asked_for(linear: Any) -> None:
    document = {
        "parameters": {"stream": True},
        "inputs": [
            {"name": "x", "shape": [2, 4], "datatype": "FP32", "data": X.ravel().tolist()},
            {"name": "pick", "shape": [2, 1], "datatype": "INT64", "data": PICK.ravel().tolist()},
        ],
    }
    with linear.client() as http:
        for path in ("/invocations", "/v2/models/linear/infer"):
            answer = http.post(path, content=json.dumps(document))
            assert answer.headers["transfer-encoding"] == "chunked"
            assert answer.json()["outputs"][0]["data"] == EXPECTED.ravel().tolist()


@pytest.mark.skipif(shutil.which("perf_analyzer") is None, reason="no perf_analyzer (tritonclient <= 2.44 carries it)")
def test_perf_analyzer_measures_the_server(linear: Any) -> None:
    command = ["perf_analyzer", "-m", "linear", "-u", f"127.0.0.1:{linear.port}", "--input-data", "zero"]
    options = ["--concurrency-range", "4", "--measurement-interval", "1000", "-s", "99", "-b", "2"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Successful request count" in done.stdout
