"""From the first socket to the last answer."""

from __future__ import annotations

import io
import json
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from serving.protocol.served import ServedModel
from serving.spec.runtime import VllmRuntime
from serving.spec.tensors import DType, TensorSpec

Read = Callable[..., list[tuple[int, dict[str, str], bytes]]]
LONG = 400_000
ROOT = Path(__file__).parents[3]


def steps(turns: int) -> dict[str, Any]:
    return {"inputs": [{"name": "steps", "shape": [1, 1], "datatype": "INT64", "data": [turns]}]}


def send(server: Any, turns: int) -> socket.socket:
    body = json.dumps(steps(turns)).encode()
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    return connection


def test_the_ready_line_says_where_and_what(linear: Any) -> None:
    assert linear.ready == {"port": linear.port, "name": "linear", "version": "2.1.0"}


def test_sigterm_answers_what_is_in_flight_and_then_ends_well(start: Any, read: Read) -> None:
    with start("slow") as server:
        idle = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        with send(server, LONG) as busy:
            server.until("streamhub_running_batches", 1)
            queued = send(server, 7)
            server.until("streamhub_waiting_requests", 1)
            server.process.send_signal(signal.SIGTERM)
            with idle, queued:
                assert idle.recv(1) == b"", "idle connections are closed at once"
                with pytest.raises(ConnectionError):
                    socket.create_connection(("127.0.0.1", server.port)).close()
                for connection, value in ((busy, LONG), (queued, 7)):
                    status, headers, body = read(connection, answers=-1)[0]
                    assert (status, headers["connection"]) == (200, "close")
                    assert json.loads(body)["outputs"][0]["data"] == [float(value)]
        assert server.process.wait(timeout=60) == 0


def test_a_half_sent_request_is_finished_during_the_drain(start: Any, read: Read) -> None:
    with start("slow") as server:
        body = json.dumps(steps(1)).encode()
        head = b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(b"GET /ping HTTP/1.1\r\n\r\n" + head + body[:5])
            assert read(connection, answers=1)[0][0] == 200  # so the head behind it has arrived too
            idle = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            server.process.send_signal(signal.SIGTERM)
            with idle:
                assert idle.recv(1) == b""
            connection.sendall(body[5:])
            assert [answer[0] for answer in read(connection, answers=-1)] == [200]


def until_it_listens(port: int) -> None:
    end_s = time.monotonic() + 60
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_a_server_is_live_but_not_ready_while_it_warms_up(packed: Any) -> None:
    archive = packed("slow", sample=steps(500_000))  # far longer to warm up than to ask three times, on any machine
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "serving.runtime", "--archive", str(archive), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            until_it_listens(port)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
                assert http.get("/ping").status_code == 503
                assert http.get("/v2/health/live").status_code == 200
                assert http.post("/invocations", json=steps(1)).status_code == 503
                assert process.stdout is not None
                assert json.loads(process.stdout.readline())["port"] == port
                assert http.get("/ping").status_code == 200
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def refused(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_archives_that_cannot_be_served_are_refused_in_one_line(packed: Any, tmp_path: Path) -> None:
    whole = packed("linear")
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(whole.read_bytes()[:-20])
    other = (TensorSpec(name="x", dtype=DType.FP32, shape=(5,)), TensorSpec(name="pick", dtype=DType.INT64, shape=(1,)))
    cases = {
        cut: "no whole tar.gz",
        tmp_path / "none.tar.gz": "no such file",
        packed("linear", graph=b"no graph"): "does not load",
        packed("linear", inputs=other): "[-1, 5]",
        packed("linear", inputs=other[:1]): "allowed",
        packed("linear", sample={"inputs": []}): "samples/request.json",
    }
    for archive, text in cases.items():
        assert text in refused("-m", "serving.runtime", "--archive", str(archive), "--port", "0")


def test_an_archive_of_vllm_wants_an_interpreter_that_has_it(pack_vllm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMHUB_VLLM_PYTHON", raising=False)
    assert "STREAMHUB_VLLM_PYTHON" in refused("-m", "serving.runtime", "--archive", str(pack_vllm), "--port", "0")


def test_the_command_says_where_it_serves_and_refuses_a_taken_port(packed: Any) -> None:
    archive = str(packed("linear"))
    command = [sys.executable, "-c", "from cli.main import main; main()", "serve", archive, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        document = ""
        while not document.endswith("}\n"):
            document += process.stdout.readline()
        ready = json.loads(document)
        assert httpx.get(f"{ready['url']}/ping", trust_env=False).status_code == 200
        text = refused("-c", "from cli.main import main; main()", "serve", archive, "--port", str(ready["port"]))
        assert "--port" in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def test_the_model_is_unpacked_where_it_is_told(start: Any, tmp_path: Path) -> None:
    with start("linear", "--workdir", str(tmp_path / "model")):
        assert (tmp_path / "model/linear/1/model.onnx").is_file()


def test_a_sample_warms_the_shapes_it_has(start: Any) -> None:
    x, pick = np.ones((3, 4)), np.ones((3, 1), dtype=int)
    sample = {
        "inputs": [
            {"name": "x", "shape": [3, 4], "datatype": "FP32", "data": x.ravel().tolist()},
            {"name": "pick", "shape": [3, 1], "datatype": "INT64", "data": pick.ravel().tolist()},
        ]
    }
    with start("linear", sample=sample) as server, server.client() as http:
        assert http.post("/invocations", json=sample).json()["outputs"][0]["data"] == [13.5] * 3


@pytest.fixture(name="pack_vllm")
def pack_vllm_fixture(tmp_path: Path) -> Path:

    served = ServedModel(
        name="rag", version="1.0.0", runtime=VllmRuntime(), inputs=(), outputs=(), p99_ms=1.0, deadline_ms=2.0
    )
    with tarfile.open(tmp_path / "rag.tar.gz", "w:gz") as tar:
        for name, data in {"streamhub.json": served.to_json(), "config.json": b"{}"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return tmp_path / "rag.tar.gz"


@pytest.mark.parametrize("said", ["argument", "environment"])
def test_a_stage_may_give_another_deadline_than_the_archive(
    start: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--deadline-ms", "60000"] if said == "argument" else []
    if said == "environment":
        monkeypatch.setenv("STREAMHUB_DEADLINE_MS", "60000")
    with start("slow", *arguments, deadline_ms=1.0) as server:
        url = f"http://127.0.0.1:{server.port}/invocations"
        with ThreadPoolExecutor(16) as clients:  # the archive's millisecond would drop all but the first of them
            answers = clients.map(lambda _: httpx.post(url, json=steps(LONG), timeout=60), range(16))
            assert {answer.status_code for answer in answers} == {200}


def test_a_deadline_of_nothing_is_wrong_usage(packed: Any) -> None:
    command = [sys.executable, "-m", "serving.runtime", "--archive", str(packed("linear")), "--deadline-ms", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert "allowed a number of milliseconds above 0" in done.stderr
