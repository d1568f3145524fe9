"""The repository API of the Open Inference Protocol, as Triton's own client asks for it, and what it may not reach."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.integration.runtime.conftest import TABLE, WEIGHTS, Server, launched, linear_graph

X = np.array([[1, 2, 3, 4]], dtype=np.float32)
PICK = np.array([[1]], dtype=np.int64)
ANSWER = X @ WEIGHTS.reshape(4, 1) + TABLE[1]


@pytest.fixture(name="shelf")
def shelf_fixture(tmp_path: Path, packed: Any) -> Path:
    """A folder with two versions of one model, another model, and what is none."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    for version in ("9.0.0", "10.0.0"):
        shutil.copy(packed("linear", version=version), shelf / f"linear-{version}.model.tar.gz")
    shutil.copy(packed("text"), shelf / "text-2.1.0.model.tar.gz")
    (shelf / "broken-1.0.0.model.tar.gz").write_bytes(b"no archive")
    (shelf / "notes.txt").write_text("nothing")
    outside = tmp_path / "outside-1.0.0.model.tar.gz"
    shutil.copy(packed("linear"), outside)
    (shelf / "outside-1.0.0.model.tar.gz").symlink_to(outside)
    return shelf


@pytest.fixture(name="server")
def server_fixture(shelf: Path) -> Iterator[Server]:
    with launched("--model-repository", str(shelf), "--load-model", "linear") as server:
        yield server


@pytest.fixture(name="client")
def client_fixture(server: Server) -> Iterator[Any]:
    client = triton_http.InferenceServerClient(f"127.0.0.1:{server.port}")
    yield client
    client.close()


def asked(client: Any, model: str = "linear") -> Any:
    inputs = []
    for name, array, datatype in (("x", X, "FP32"), ("pick", PICK, "INT64")):
        given = triton_http.InferInput(name, list(array.shape), datatype)
        given.set_data_from_numpy(array)
        inputs.append(given)
    return client.infer(model, inputs).as_numpy("y")


def version_of(client: Any) -> object:
    return client.get_model_config("linear")["parameters"]["streamhub_version"]["string_value"]


def test_a_server_starts_with_the_newest_version_of_what_it_is_told(server: Server, client: Any) -> None:
    assert server.ready == {"port": server.port, "models": {"linear": "10.0.0"}}
    np.testing.assert_allclose(asked(client), ANSWER, rtol=1e-6)
    assert version_of(client) == "10.0.0"


def test_the_index_names_what_is_there_in_which_state(client: Any) -> None:
    rows = {row["name"]: row for row in client.get_model_repository_index()}
    assert {name: row["state"] for name, row in rows.items()} == {
        "linear": "READY",
        "text": "UNAVAILABLE",
        "broken": "UNAVAILABLE",
    }
    assert rows["linear"]["version"] == "1"


def test_models_are_loaded_and_unloaded_by_name(client: Any) -> None:
    assert not client.is_model_ready("text")
    client.load_model("text")
    assert client.is_model_ready("text")
    client.unload_model("text")
    assert not client.is_model_ready("text")
    np.testing.assert_allclose(asked(client), ANSWER, rtol=1e-6)


def test_loading_again_takes_what_lies_there_now_and_keeps_the_old_one_where_that_fails(
    client: Any, shelf: Path, packed: Any
) -> None:
    shutil.copy(packed("linear", version="11.0.0"), shelf / "linear-11.0.0.model.tar.gz")
    client.load_model("linear")
    assert version_of(client) == "11.0.0"
    np.testing.assert_allclose(asked(client), ANSWER, rtol=1e-6)
    (shelf / "linear-12.0.0.model.tar.gz").write_bytes(linear_graph())
    with pytest.raises(InferenceServerException, match="no gzip"):
        client.load_model("linear")
    np.testing.assert_allclose(asked(client), ANSWER, rtol=1e-6)
    with pytest.raises(InferenceServerException, match="no gzip"):
        client.load_model("broken")
    (row,) = [row for row in client.get_model_repository_index() if row["name"] == "broken"]
    assert (row["state"], "no gzip" in row["reason"]) == ("UNAVAILABLE", True)


def test_no_name_leads_out_of_the_folder_and_no_client_brings_a_model(server: Server) -> None:
    with server.client() as client:
        for name in ("outside", "../outside", "%2e%2e%2foutside-1.0.0", "notes.txt", "linear-9.0.0", "", "a%00b"):
            assert client.post(f"/v2/repository/models/{name}/load").status_code == 404, name
        for parameters in ({"config": "{}"}, {"file:1/model.onnx": "QUJD"}, {"unload_dependents": True, "x": 1}, [1]):
            answer = client.post("/v2/repository/models/linear/load", json={"parameters": parameters})
            assert answer.status_code == 400
            assert "as it lies in the repository" in answer.json()["error"]
        assert client.post("/v2/repository/models/text/unload").status_code == 404
        rows = client.post("/v2/repository/index", json={"ready": True}).json()
        assert [row["name"] for row in rows] == ["linear"]


def test_requests_are_answered_while_their_model_is_replaced(server: Server, client: Any) -> None:
    stop = threading.Event()
    wrong: list[object] = []

    def ask() -> None:
        with_own = triton_http.InferenceServerClient(f"127.0.0.1:{server.port}")
        while not stop.is_set():
            try:
                if not np.allclose(asked(with_own), ANSWER):
                    wrong.append("answer")
            except InferenceServerException as error:
                wrong.append(error)
        with_own.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        client.load_model("linear")
    stop.set()
    for thread in threads:
        thread.join(timeout=30)
    assert wrong == []


def test_a_model_to_start_with_that_is_not_there_is_said(shelf: Path, failing: Callable[..., str]) -> None:
    errors = failing("--model-repository", str(shelf), "--load-model", "nothing")
    assert "model 'nothing'" in errors
    assert "allowed broken, linear, text" in errors


def test_a_server_needs_something_to_serve(failing: Callable[..., str]) -> None:
    assert "name one with --archive, --model-repository or --models-root" in failing()
