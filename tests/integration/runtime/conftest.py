"""Graphs made here, archives packed by tarfile, servers in processes of their own: nothing of the packager is used."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

from serving.protocol.served import ServedModel
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import DType, TensorSpec

WEIGHTS = np.array([1.0, -2.0, 0.5, 4.0], dtype=np.float32)
TABLE = np.array([0.0, 10.0, 20.0], dtype=np.float32)


def made_graph(
    nodes: list[object], inputs: list[object], outputs: list[object], constants: dict[str, np.ndarray]
) -> bytes:
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "toy", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def linear_graph() -> bytes:
    """Y = x · WEIGHTS + TABLE[pick]; a pick beyond the table makes the whole run raise."""
    return made_graph(
        [
            helper.make_node("Mul", ["x", "weights"], ["scaled"]),
            helper.make_node("ReduceSum", ["scaled", "axes"], ["sum"], keepdims=1),
            helper.make_node("Gather", ["table", "pick"], ["picked"]),
            helper.make_node("Add", ["sum", "picked"], ["y"]),
        ],
        [
            helper.make_tensor_value_info("x", T.FLOAT, ["rows", 4]),
            helper.make_tensor_value_info("pick", T.INT64, ["rows", 1]),
        ],
        [helper.make_tensor_value_info("y", T.FLOAT, ["rows", 1])],
        {"weights": WEIGHTS, "table": TABLE, "axes": np.array([1], dtype=np.int64)},
    )


def slow_graph() -> bytes:
    """Y = steps, after as many turns of a loop as the largest of the batch asks for."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Add", ["sum", "one"], ["next"]),
        ],
        "turn",
        [
            helper.make_tensor_value_info("turn", T.INT64, []),
            helper.make_tensor_value_info("go", T.BOOL, []),
            helper.make_tensor_value_info("sum", T.FLOAT, []),
        ],
        [helper.make_tensor_value_info("on", T.BOOL, []), helper.make_tensor_value_info("next", T.FLOAT, [])],
        [numpy_helper.from_array(np.array(1.0, dtype=np.float32), "one")],
    )
    return made_graph(
        [
            helper.make_node("ReduceMax", ["steps"], ["turns"], keepdims=0),
            helper.make_node("Loop", ["turns", "yes", "zero"], ["sum"], body=body),
            helper.make_node("Mul", ["sum", "zero"], ["nothing"]),
            helper.make_node("Cast", ["steps"], ["as_float"], to=T.FLOAT),
            helper.make_node("Add", ["as_float", "nothing"], ["y"]),
        ],
        [helper.make_tensor_value_info("steps", T.INT64, ["rows", 1])],
        [helper.make_tensor_value_info("y", T.FLOAT, ["rows", 1])],
        {"yes": np.array(True), "zero": np.array(0.0, dtype=np.float32)},
    )


def text_graph() -> bytes:
    """Give text and tokens back; both sizes vary."""
    return made_graph(
        [helper.make_node("Identity", ["text"], ["same"]), helper.make_node("Identity", ["tokens"], ["again"])],
        [
            helper.make_tensor_value_info("text", T.STRING, ["rows", "n"]),
            helper.make_tensor_value_info("tokens", T.INT32, ["rows", "m"]),
        ],
        [
            helper.make_tensor_value_info("same", T.STRING, ["rows", "n"]),
            helper.make_tensor_value_info("again", T.INT32, ["rows", "m"]),
        ],
        {},
    )


LINEAR = ServedModel(
    name="linear",
    version="2.1.0",
    runtime=TritonRuntime(device="cpu", max_batch_size=16, max_queue_size=256),
    inputs=(
        TensorSpec(name="x", dtype=DType.FP32, shape=(4,)),
        TensorSpec(name="pick", dtype=DType.INT64, shape=(1,)),
    ),
    outputs=(TensorSpec(name="y", dtype=DType.FP32, shape=(1,)),),
    p99_ms=1000.0,
    deadline_ms=30_000.0,
)
SLOW = replace(LINEAR, name="slow", inputs=(TensorSpec(name="steps", dtype=DType.INT64, shape=(1,)),))
TEXT = replace(
    LINEAR,
    name="text",
    inputs=(
        TensorSpec(name="text", dtype=DType.BYTES, shape=(-1,)),
        TensorSpec(name="tokens", dtype=DType.INT32, shape=(-1,)),
    ),
    outputs=(
        TensorSpec(name="same", dtype=DType.BYTES, shape=(-1,)),
        TensorSpec(name="again", dtype=DType.INT32, shape=(-1,)),
    ),
)


def pack(path: Path, served: ServedModel, graph: bytes, sample: dict[str, object] | None = None) -> Path:
    files = {"config.pbtxt": b"", "1/model.onnx": graph, "streamhub.json": served.to_json()}
    if sample is not None:
        files["samples/request.json"] = json.dumps(sample).encode()
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"{served.name}/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[str]
    port: int
    ready: dict[str, object]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60.0, trust_env=False)

    def metric(self, name: str) -> float:
        """Read one metric; its labels but for model and version are part of the name."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with closing(connection):
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        plain = {
            line.split("{")[0].split()[0] + line.partition('2.1.0"')[2].split("}")[0]: line.split()[-1]
            for line in lines
        }
        return float(plain[name])

    def until(self, name: str, value: float) -> None:
        """Return once a metric has that value."""
        end_s = time.monotonic() + 60
        while (got := self.metric(name)) != value:
            assert time.monotonic() < end_s, f"{name} is {got}, never {value}"
            time.sleep(0.002)


def serving(archive: Path, *options: str, said: str = "") -> AbstractContextManager[Server]:
    """Run the server on an archive."""
    return launched("--archive", str(archive), *options, said=said)


@contextmanager
def launched(*options: str, environ: Mapping[str, str] | None = None, said: str = "") -> Iterator[Server]:
    """Run the server; its end must be a clean one, and all that it `said` on standard error that line."""
    command = [sys.executable, "-m", "serving.runtime", "--port", "0", *options]
    environment = {**os.environ, **(environ or {})}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        ready = json.loads(line)
        yield Server(process, ready["port"], ready)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        told = [text for text in errors.splitlines() if not text.startswith("{")]  # but for its log of requests
        assert (process.returncode, told) == (0, [f"serving.runtime: {said}"] if said else [])
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture(name="failing")
def failing_fixture() -> Callable[..., str]:
    """Start a server that cannot start; gives what it says."""

    def run(*options: str, environ: Mapping[str, str] | None = None) -> str:
        command = [sys.executable, "-m", "serving.runtime", "--port", "0", *options]
        environment = {**os.environ, **(environ or {})}
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        assert done.returncode == 1, done.stderr
        return done.stderr

    return run


MODELS = {"linear": (LINEAR, linear_graph), "slow": (SLOW, slow_graph), "text": (TEXT, text_graph)}
Pack = Callable[..., Path]
Start = Callable[..., AbstractContextManager[Server]]


@pytest.fixture(scope="session", name="packed")
def packed_fixture(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """Pack one of the models, with changes of what its archive says and with another sample or graph."""

    def packed(name: str, *, sample: dict[str, object] | None = None, graph: bytes = b"", **changes: Any) -> Path:
        served, made = MODELS[name]
        archive = tmp_path_factory.mktemp("archives") / f"{name}.model.tar.gz"
        return pack(archive, replace(served, **changes), graph or made(), sample)

    return packed


@pytest.fixture(scope="session", name="start")
def start_fixture(packed: Pack) -> Start:
    """Start a server on one of the models; used as a context, so that its end is checked."""

    def start(name: str, *options: str, said: str = "", **changes: Any) -> AbstractContextManager[Server]:
        return serving(packed(name, **changes), *options, said=said)

    return start


@pytest.fixture(scope="session", name="linear_model")
def linear_model_fixture() -> bytes:
    """Give the graph of `linear`."""
    return linear_graph()


@pytest.fixture(scope="session", name="linear")
def linear_fixture(start: Start) -> Iterator[Server]:
    with start("linear") as server:
        yield server


@pytest.fixture(scope="session", name="slow")
def slow_fixture(start: Start) -> Iterator[Server]:
    with start("slow") as server:
        yield server


def talk(server: Server, data: bytes, *, answers: int = 1) -> list[tuple[int, dict[str, str], bytes]]:
    """Send raw bytes and read so many answers (-1: until the server closes)."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(data)
        return read(connection, answers=answers)


def read(connection: socket.socket, *, answers: int) -> list[tuple[int, dict[str, str], bytes]]:
    """Read answers as any HTTP client does: head, content-length, body."""
    found: list[tuple[int, dict[str, str], bytes]] = []
    with connection.makefile("rb") as stream:
        while len(found) != answers:
            status = stream.readline()
            if not status and answers < 0:
                return found
            assert status.startswith(b"HTTP/1.1 "), status
            headers = {}
            while (line := stream.readline()) not in {b"\r\n", b""}:
                key, _, value = line.decode().partition(":")
                headers[key.strip().lower()] = value.strip()
            body = stream.read(int(headers.get("content-length", 0)))
            found.append((int(status.split()[1]), headers, body))
    return found


@pytest.fixture(scope="session", name="talk")
def talk_fixture() -> Callable[..., list[tuple[int, dict[str, str], bytes]]]:
    return talk


@pytest.fixture(scope="session", name="read")
def read_fixture() -> Callable[..., list[tuple[int, dict[str, str], bytes]]]:
    return read
