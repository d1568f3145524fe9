"""SageMaker's multi-model contract, checked on a server of its own whose memory holds two models of three."""

from __future__ import annotations

import resource
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from onnx import TensorProto, helper

from serving.spec.runtime import TritonRuntime
from tests.integration.runtime.conftest import TABLE, WEIGHTS, Server, launched, made_graph

X = [[1.0, 2.0, 3.0, 4.0]]
BODY = {
    "inputs": [
        {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": X},
        {"name": "pick", "shape": [1, 1], "datatype": "INT64", "data": [[1]]},
    ]
}
ANSWER = float(np.array(X[0], dtype=np.float32) @ WEIGHTS + TABLE[1])


@pytest.fixture(scope="module", name="root")
def root_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("opt") / "models"
    root.mkdir()
    return root


@pytest.fixture(name="put")
def put_fixture(root: Path, packed: Any) -> Callable[..., str]:
    """Put a model where SageMaker does, unpacked or as an archive; gives the url."""

    def put(key: str, model: str = "linear", *, unpacked: bool = True, **changes: Any) -> str:
        archive = packed(model, **changes)
        place = Path(tempfile.mkdtemp(prefix=f"{key}-", dir=root)) / "model"
        if unpacked:
            with tarfile.open(archive) as tar:
                tar.extractall(place, filter="data")
        else:
            shutil.copy(archive, place)
        return str(place)

    return put


@pytest.fixture(scope="module", name="running")
def running_fixture(root: Path) -> Iterator[Server]:
    # a small graph counts as little more than 4 MiB, so two fit and a third does not
    with launched("--models-root", str(root), "--model-memory-mib", "9") as server:
        yield server


@pytest.fixture(name="server")
def server_fixture(running: Server) -> Iterator[Server]:
    """Give the server without models, whatever the test before left in it."""
    yield running
    with running.client() as client:
        for model in client.get("/models").json()["models"]:
            client.delete(f"/models/{model['modelName']}")


def load(client: httpx.Client, name: str, url: str) -> httpx.Response:
    return client.post("/models", json={"model_name": name, "url": url})


def invoke(client: httpx.Client, name: str, body: object = BODY) -> httpx.Response:
    return client.post(f"/models/{name}/invoke", json=body)


def state_of(client: httpx.Client, name: str) -> str:
    rows = client.post("/v2/repository/index").json()
    return str({row["name"]: row["state"] for row in rows}.get(name))


def test_models_are_loaded_listed_invoked_and_unloaded_by_name(server: Server, put: Callable[..., str]) -> None:
    url = put("a1b2")
    with server.client() as client:
        assert client.get("/ping").status_code == 200
        assert client.get("/models").json() == {"models": []}
        assert invoke(client, "a1b2").status_code == 404
        assert load(client, "a1b2", url).status_code == 200
        assert client.get("/models/a1b2").json() == {"modelName": "a1b2", "modelUrl": url}
        assert client.get("/models").json() == {"models": [{"modelName": "a1b2", "modelUrl": url}]}
        answer = invoke(client, "a1b2")
        assert answer.status_code == 200
        assert answer.json()["outputs"][0]["data"] == [ANSWER]
        assert answer.json()["model_name"] == "a1b2"
        assert client.delete("/models/a1b2").status_code == 200
        assert client.delete("/models/a1b2").status_code == 404
        assert client.get("/models/a1b2").status_code == 404
        assert invoke(client, "a1b2").status_code == 404
        assert client.post("/invocations", json=BODY).status_code == 404


def test_an_archive_is_loaded_as_an_unpacked_folder_is(server: Server, put: Callable[..., str]) -> None:
    with server.client() as client:
        assert load(client, "packed", put("packed", unpacked=False)).status_code == 200
        assert invoke(client, "packed").json()["outputs"][0]["data"] == [ANSWER]


def test_a_name_is_loaded_once_even_when_two_ask_at_the_same_time(server: Server, put: Callable[..., str]) -> None:
    url = put("twice")

    def ask(_: int) -> int:
        with server.client() as client:
            return load(client, "twice", url).status_code

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(ask, range(4))) == [200, 409, 409, 409]


def test_a_model_that_left_for_another_answers_its_next_request(server: Server, put: Callable[..., str]) -> None:
    urls = {name: put(name) for name in ("one", "two", "three")}
    with server.client() as client:
        for name, url in urls.items():
            assert load(client, name, url).status_code == 200
        assert [state_of(client, name) for name in urls] == ["UNAVAILABLE", "READY", "READY"]
        assert len(client.get("/models").json()["models"]) == 3
        assert invoke(client, "one").json()["outputs"][0]["data"] == [ANSWER]
        assert [state_of(client, name) for name in urls] == ["READY", "UNAVAILABLE", "READY"]


def test_the_model_that_was_used_last_stays(server: Server, put: Callable[..., str]) -> None:
    with server.client() as client:
        load(client, "one", put("one"))
        load(client, "two", put("two"))
        assert invoke(client, "one").status_code == 200
        load(client, "three", put("three"))
        assert [state_of(client, name) for name in ("one", "two")] == ["READY", "UNAVAILABLE"]


def test_what_does_not_fit_even_alone_is_507(root: Path, put: Callable[..., str]) -> None:
    url = put("large")
    with launched("--models-root", str(root), "--model-memory-mib", "3") as server, server.client() as client:
        answer = load(client, "large", url)
        assert answer.status_code == 507
        assert "allowed 3 MiB" in answer.json()["error"]
        assert client.get("/models").json() == {"models": []}
        assert client.get("/ping").status_code == 200


def test_a_busy_model_does_not_leave_and_an_unload_waits_for_its_answer(
    server: Server, put: Callable[..., str]
) -> None:
    turns = 400_000
    slow = {"inputs": [{"name": "steps", "shape": [1, 1], "datatype": "INT64", "data": [[turns]]}]}
    with server.client() as client:
        load(client, "slow", put("slow", "slow"))
        load(client, "other", put("other"))
        found: list[float] = []

        def ask() -> None:
            with server.client() as another:
                found.extend(invoke(another, "slow", slow).json()["outputs"][0]["data"])

        asking = threading.Thread(target=ask)
        asking.start()
        while 'streamhub_running_batches{model="slow",version="2.1.0"} 1' not in client.get("/metrics").text:
            assert asking.is_alive()
        load(client, "third", put("third"))
        assert [state_of(client, name) for name in ("slow", "other")] == ["READY", "UNAVAILABLE"]
        assert client.delete("/models/slow").status_code == 200
        asking.join(timeout=30)
        assert found == [turns]


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/etc", 404),
        ("{root}/../secret", 404),
        ("{root}/nothing/model", 404),
        ("relative", 404),
        ("{root}/link", 404),
        (7, 400),
    ],
)
def test_only_what_lies_below_the_root_is_loaded(
    server: Server, root: Path, packed: Any, url: Any, status: int
) -> None:
    secret, link = root.parent / "secret", root / "link"
    shutil.copy(packed("linear"), secret)
    if not link.is_symlink():
        link.symlink_to(secret)
    with server.client() as client:
        asked = url.format(root=root) if isinstance(url, str) else url
        assert client.post("/models", json={"model_name": "m", "url": asked}).status_code == status
        assert client.get("/models").json() == {"models": []}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"model_name": "a/b", "url": "/"}', b'{"model_name": ""}'])
def test_a_load_without_name_and_url_is_400(server: Server, body: bytes) -> None:
    with server.client() as client:
        assert client.post("/models", content=body).status_code == 400


def test_a_broken_archive_is_400_and_the_server_goes_on(server: Server, root: Path, put: Callable[..., str]) -> None:
    (root / "broken").write_bytes(b"\x1f\x8bnothing")
    with server.client() as client:
        answer = load(client, "broken", str(root / "broken"))
        assert answer.status_code == 400
        assert "truncated" in answer.json()["error"] or "corrupt" in answer.json()["error"]
        assert state_of(client, "broken") == "UNAVAILABLE"
        assert load(client, "broken", put("mended")).status_code == 200
        assert invoke(client, "broken").status_code == 200


def test_a_server_with_one_model_has_no_such_routes(linear: Server) -> None:
    with linear.client() as client:
        assert client.get("/models").status_code == 404
        assert client.post("/models", json={}).status_code == 404
        assert client.post("/v2/repository/models/linear/unload").status_code == 400
        assert [row["state"] for row in client.post("/v2/repository/index").json()] == ["READY"]


def test_other_methods_are_405_with_those_allowed(server: Server) -> None:
    with server.client() as client:
        assert client.put("/models").headers["allow"] == "GET, POST"
        assert client.post("/models/x").headers["allow"] == "GET, DELETE"
        assert client.get("/v2/repository/index").headers["allow"] == "POST"


def test_the_models_left_at_the_end_leave_no_folders(root: Path, put: Callable[..., str], tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    url = put("packed", unpacked=False)
    with launched("--models-root", str(root), environ={"TMPDIR": str(scratch)}) as server, server.client() as client:
        assert load(client, "one", url).status_code == 200
        assert load(client, "two", url).status_code == 200
        assert client.delete("/models/one").status_code == 200
        assert len(list(scratch.glob("streamhub-*/*"))) == 1
    assert not list(scratch.glob("streamhub-*"))


def test_a_model_that_leaves_gives_its_memory_back(put: Callable[..., str]) -> None:
    width = 1_000_000
    weights = np.ones((4, width), dtype=np.float32)
    graph = made_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["wide"]),
            helper.make_node("ReduceSum", ["wide", "axes"], ["sum"], keepdims=1),
            helper.make_node("Cast", ["pick"], ["picked"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["sum", "picked"], ["y"]),
        ],
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4]),
            helper.make_tensor_value_info("pick", TensorProto.INT64, ["rows", 1]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 1])],
        {"w": weights, "axes": np.array([1])},
    )
    url = put("wide", graph=graph, runtime=TritonRuntime(device="cpu", max_batch_size=1))
    with launched("--models-root", str(Path(url).parents[1])) as roomy, roomy.client() as client:
        for _ in range(3):
            assert load(client, "wide", url).status_code == 200
            loaded_bytes = resident_bytes(roomy)
            assert client.delete("/models/wide").status_code == 200
            assert loaded_bytes - resident_bytes(roomy) >= weights.nbytes


def resident_bytes(server: Server) -> int:
    (pages,) = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1:2]
    return int(pages) * resource.getpagesize()


def test_one_small_model_takes_at_most_110_mib(linear: Server) -> None:
    assert resident_bytes(linear) <= 110 << 20
