"""A vLLM archive: a stand-in that speaks the contract of vLLM's server, and the real one where it is installed."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.errors import ServerError
from serving.protocol.served import ServedModel
from serving.runtime.vllm import free_port
from serving.spec.runtime import VllmRuntime
from serving.spec.tensors import DType, TensorSpec
from tests.integration.runtime.conftest import Server, launched

ROOT = Path(__file__).parents[3]
SERVED = ServedModel(
    name="rag",
    version="1.0.0",
    runtime=VllmRuntime(tensor_parallel=1, max_model_len=512),
    inputs=(TensorSpec(name="messages", dtype=DType.BYTES, shape=(-1,)),),
    outputs=(TensorSpec(name="content", dtype=DType.BYTES, shape=(1,)),),
    p99_ms=1000.0,
    deadline_ms=5000.0,
)
STAND_IN = """
import argparse, http.server, json, os, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--host")
parser.add_argument("--port", type=int)
flags, _ = parser.parse_known_args()
state = os.environ["STAND_IN_STATE"]
open(os.path.join(state, "argv"), "w").write(json.dumps(sys.argv[1:]))
open(os.path.join(state, "pid"), "w").write(str(os.getpid()))
if os.environ.get("STAND_IN_FAILS"):
    sys.exit("no GPU")
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        unwell = os.path.exists(os.path.join(state, "unwell"))
        self.whole(503 if unwell else 200, {"path": self.path})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body.get("exit"):
            os._exit(7)
        if not body.get("stream"):
            return self.whole(200, {"path": self.path, "got": body, "type": self.headers["content-type"]})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number in range(body["stream"]):
            self.piece(f"data: {number}\\n\\n".encode())
            deadline = time.monotonic() + 30
            while not os.path.exists(os.path.join(state, f"go{number}")) and time.monotonic() < deadline:
                time.sleep(0.005)
                if body.get("endless"):
                    try:
                        self.piece(b":\\n")
                    except OSError:
                        open(os.path.join(state, "cancelled"), "w").close()
                        return
        self.wfile.write(b"0\\r\\n\\r\\n")
    def piece(self, data):
        self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(data), data))
        self.wfile.flush()
    def whole(self, status, document):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
http.server.ThreadingHTTPServer((flags.host, flags.port), Handler).serve_forever()
"""


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture(scope="module", name="archive")
def archive_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(
        tmp_path_factory.mktemp("archive") / "rag.model.tar.gz",
        {"streamhub.json": SERVED.to_json(), "config.json": b"{}"},
    )


@pytest.fixture(scope="module", name="state")
def state_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module", name="environ")
def environ_fixture(tmp_path_factory: pytest.TempPathFactory, state: Path) -> dict[str, str]:
    packages = tmp_path_factory.mktemp("packages")
    module = packages / "vllm/entrypoints/openai/api_server.py"
    module.parent.mkdir(parents=True)
    module.write_text(STAND_IN)
    for folder in (module.parent, module.parent.parent, module.parent.parent.parent):
        (folder / "__init__.py").touch()
    return {"PYTHONPATH": f"{packages}:{ROOT}", "STAND_IN_STATE": str(state)}


@pytest.fixture(name="own")
def own_fixture(tmp_path: Path) -> Path:
    """Give a folder for the state of a child that is not shared."""
    return tmp_path


@contextmanager
def until(condition: Callable[[], bool]) -> Iterator[None]:
    yield
    end_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


@pytest.fixture(scope="module", name="server")
def server_fixture(archive: Path, environ: dict[str, str]) -> Iterator[Server]:
    with launched("--archive", str(archive), environ=environ) as server:
        yield server


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_requests_reach_the_child_as_they_are_and_answers_come_back(server: Server) -> None:
    assert server.ready == {"port": server.port, "name": "rag", "version": "1.0.0"}
    with server.client() as client:
        assert client.get("/ping").status_code == 200
        body = {"messages": [{"role": "user", "content": "grüße"}]}
        assert client.post("/invocations", json=body).json() == {
            "path": "/invocations",
            "got": body,
            "type": "application/json",
        }
        assert client.get("/v1/models").json() == {"path": "/v1/models"}
        assert client.get("/v2/health/live").status_code == 200
        assert client.get("/elsewhere").status_code == 404


def test_the_child_gets_the_flags_of_the_archive_and_of_the_container_and_ends_with_the_server(
    archive: Path, environ: dict[str, str], own: Path
) -> None:
    told = {"SM_VLLM_DTYPE": "float32", "SM_VLLM_ENFORCE_EAGER": "true", "SAGEMAKER_SAFE_PORT_RANGE": "21000-21999"}
    with launched("--archive", str(archive), environ={**environ, **told, "STAND_IN_STATE": str(own)}):
        pid = int((own / "pid").read_text())
        assert alive(pid)
    assert not alive(pid)
    given = json.loads((own / "argv").read_text())
    # "--enforce-eager" is a switch and has no value
    given.remove("--enforce-eager")
    flags = dict(zip(given[::2], given[1::2], strict=True))
    assert 21000 <= int(flags.pop("--port")) <= 21999
    assert Path(flags.pop("--model")).name == "model"
    assert flags == {
        "--served-model-name": "rag",
        "--tensor-parallel-size": "1",
        "--max-model-len": "512",
        "--gpu-memory-utilization": "0.9",
        "--max-num-seqs": "256",
        "--dtype": "float32",
        "--host": "127.0.0.1",
    }


def test_a_streamed_answer_comes_piece_by_piece(server: Server, state: Path) -> None:
    with server.client() as client, client.stream("POST", "/invocations", json={"stream": 2}) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        pieces = answer.iter_raw()
        assert next(pieces) == b"data: 0\n\n"  # the second is made once the first was seen
        (state / "go0").touch()
        assert next(pieces) == b"data: 1\n\n"
        (state / "go1").touch()
        assert list(pieces) == []


def test_a_client_that_goes_ends_the_generation(server: Server, state: Path) -> None:
    for left in state.glob("go*"):
        left.unlink()
    body = {"stream": 1, "endless": True}
    with (
        until((state / "cancelled").exists),
        server.client() as client,
        client.stream("POST", "/invocations", json=body) as answer,
    ):
        next(answer.iter_raw())


def test_ping_says_what_the_child_says_of_itself(server: Server, state: Path) -> None:
    with server.client() as client:
        with until(lambda: client.get("/ping").status_code == 503):
            (state / "unwell").touch()
        assert client.post("/invocations", json={}).status_code == 503
        with until(lambda: client.get("/ping").status_code == 200):
            (state / "unwell").unlink()


def started(archive: Path, environ: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "serving.runtime", "--port", "0", "--archive", str(archive)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env={**os.environ, **environ}, stdout=pipe, stderr=pipe, text=True)


def test_a_child_that_ends_by_itself_ends_the_server_with_an_error(
    archive: Path, environ: dict[str, str], own: Path
) -> None:
    server = started(archive, environ | {"STAND_IN_STATE": str(own)})
    assert server.stdout is not None
    port = json.loads(server.stdout.readline())["port"]
    answer = httpx.post(f"http://127.0.0.1:{port}/invocations", json={"exit": True}, trust_env=False, timeout=60)
    assert answer.status_code == 502
    _, errors = server.communicate(timeout=60)
    assert server.returncode == 1
    assert "vLLM: ended by itself with status 7" in errors


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"STAND_IN_FAILS": "1"}, "vLLM: ended with status 1 before it was ready"),
        ({"PYTHONPATH": str(ROOT)}, "vLLM: got none in"),
        ({"STREAMHUB_VLLM_PYTHON": "/nowhere/python"}, "vLLM: got none in /nowhere/python"),
    ],
)
def test_what_keeps_vllm_from_starting_is_said(
    archive: Path, environ: dict[str, str], own: Path, changes: dict[str, str], text: str
) -> None:
    if "PYTHONPATH" in changes and importlib.util.find_spec("vllm"):
        pytest.skip("vLLM is installed here")
    server = started(archive, environ | {"STAND_IN_STATE": str(own)} | changes)
    _, errors = server.communicate(timeout=60)
    assert server.returncode == 1
    assert text in errors


def test_sigterm_while_the_child_starts_ends_both(archive: Path, environ: dict[str, str], own: Path) -> None:
    (own / "unwell").touch()
    server = started(archive, environ | {"STAND_IN_STATE": str(own)})
    with until((own / "pid").exists):
        pass
    server.send_signal(signal.SIGTERM)
    _, errors = server.communicate(timeout=60)
    assert (server.returncode, errors) == (0, "")
    assert not alive(int((own / "pid").read_text()))


def test_a_child_gets_a_free_port_of_those_left_to_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = int(taken.getsockname()[1])
        with pytest.raises(ServerError, match="all taken"):
            free_port((port, port))
    assert free_port((port, port)) == port


@pytest.mark.train
@pytest.mark.timeout(900)  # a start is minutes of compilation where others compute, too
def test_the_real_vllm_answers_through_the_server(tmp_path: Path) -> None:
    python = os.environ.get("STREAMHUB_VLLM_PYTHON", sys.executable)
    if importlib.util.find_spec("vllm") is None and python == sys.executable:
        pytest.skip("vLLM is not installed; name an interpreter that has it in STREAMHUB_VLLM_PYTHON")
    weights = ROOT / "models/support_rag/weights/tiny-random"
    files = {path.name: path.read_bytes() for path in weights.iterdir()}
    archive = pack(tmp_path / "rag.model.tar.gz", {**files, "streamhub.json": SERVED.to_json()})
    told = {"STREAMHUB_VLLM_PYTHON": python, "SM_VLLM_DTYPE": "float32", "SM_VLLM_MAX_MODEL_LEN": "128"}
    log = (tmp_path / "log").open("wb")
    command = [sys.executable, "-m", "serving.runtime", "--port", "0", "--archive", str(archive)]
    server = subprocess.Popen(command, env={**os.environ, **told}, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, (tmp_path / "log").read_text()[-4000:]
        url = f"http://127.0.0.1:{json.loads(line)['port']}"
        body: dict[str, Any] = {"model": "rag", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
            assert client.get("/ping").status_code == 200
            assert client.post("/invocations", json=body).json()["usage"]["completion_tokens"] == 4
            with client.stream("POST", "/invocations", json={**body, "stream": True}) as answer:
                assert list(answer.iter_lines())[-2:] == ["data: [DONE]", ""]
    finally:
        server.terminate()
        with server:
            assert server.wait(timeout=60) == 0
        log.close()
