"""What holds on a server whatever it is asked; tests/unit/runtime holds it on a clock of its own."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np
import onnxruntime
import pytest

from serving.spec.runtime import TritonRuntime

Read = Callable[..., list[tuple[int, dict[str, str], bytes]]]
LONG = 400_000
RUNTIME = TritonRuntime(device="cpu", max_batch_size=16, max_queue_size=64)


ONE_ROW = json.dumps(
    {
        "inputs": [
            {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, 1]},
            {"name": "pick", "shape": [1, 1], "datatype": "INT64", "data": [1]},
        ]
    }
).encode()


def steps(*turns: int) -> bytes:
    return json.dumps(
        {"inputs": [{"name": "steps", "shape": [len(turns), 1], "datatype": "INT64", "data": list(turns)}]}
    ).encode()


def request(body: bytes, *headers: str) -> bytes:
    lines = ["POST /invocations HTTP/1.1", "host: x", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def connect(server: Any, stack: ExitStack) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))


def test_a_lone_request_does_not_wait_for_the_window_of_its_spec(start: Any) -> None:
    windows = replace(RUNTIME, max_queue_delay_ms=60_000.0)
    with start("linear", runtime=windows) as server, server.client() as http:
        began_s = monotonic()
        assert http.post("/invocations", content=ONE_ROW).json()["outputs"][0]["data"] == [13.5]
        assert monotonic() - began_s < 30, "half of the minute that the window is"


def test_ping_answers_while_the_model_computes(slow: Any, read: Read) -> None:
    """The limit is 50 ms beside a run of half a second; ten times that, beside a run of more than two seconds."""
    with ExitStack() as stack:
        busy, probe = connect(slow, stack), connect(slow, stack)
        busy.sendall(request(steps(2_000_000)))
        slow.until("streamhub_running_batches", 1)
        began_s, slowest_s, pings = monotonic(), 0.0, 0
        while monotonic() - began_s < 2.0:
            sent_s = monotonic()
            probe.sendall(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n")
            assert read(probe, answers=1)[0][0] == 200
            slowest_s, pings = max(slowest_s, monotonic() - sent_s), pings + 1
        assert slow.metric("streamhub_running_batches") == 1, "the run was over, so nothing was shown"
        assert slowest_s < 0.5
        assert pings > 4
        assert read(busy, answers=1)[0][0] == 200


def test_the_drain_loses_no_accepted_request(start: Any, read: Read) -> None:
    with start("slow", runtime=RUNTIME) as server, ExitStack() as stack:
        busy = connect(server, stack)
        busy.sendall(request(steps(LONG)))
        server.until("streamhub_running_batches", 1)
        waiting = [connect(server, stack) for _ in range(48)]
        for number, connection in enumerate(waiting):
            connection.sendall(request(steps(number + 1)))
        server.until("streamhub_waiting_requests", len(waiting))
        server.process.send_signal(signal.SIGTERM)
        for number, connection in enumerate(waiting):
            status, headers, body = read(connection, answers=-1)[0]
            assert (status, headers["connection"]) == (200, "close")
            assert json.loads(body)["outputs"][0]["data"] == [number + 1.0]
        assert read(busy, answers=-1)[0][0] == 200
        assert server.process.wait(timeout=60) == 0


@pytest.mark.parametrize("rows", [17, 32, 100])
def test_a_request_larger_than_a_batch_gets_what_the_graph_computes_at_once(
    linear: Any, linear_model: bytes, rows: int
) -> None:
    generator = np.random.default_rng(rows)
    x, pick = generator.random((rows, 4), dtype=np.float32), generator.integers(0, 3, (rows, 1))
    document = {
        "inputs": [
            {"name": "x", "shape": [rows, 4], "datatype": "FP32", "data": x.ravel().tolist()},
            {"name": "pick", "shape": [rows, 1], "datatype": "INT64", "data": pick.ravel().tolist()},
        ]
    }
    (whole,) = onnxruntime.InferenceSession(linear_model).run(["y"], {"x": x, "pick": pick})
    with linear.client() as http:
        (output,) = http.post("/invocations", json=document).json()["outputs"]
    assert output["shape"] == [rows, 1]
    np.testing.assert_allclose(np.array(output["data"]).reshape(-1, 1), whole, rtol=1e-5)


def test_rows_beyond_what_may_wait_are_refused_with_the_limit(start: Any) -> None:
    with start("slow", runtime=replace(RUNTIME, max_batch_size=2, max_queue_size=3)) as server, server.client() as http:
        assert http.post("/invocations", content=steps(*[1] * 6)).status_code == 200
        answer = http.post("/invocations", content=steps(*[1] * 7))
        assert answer.status_code == 400
        assert "1 to 6 rows" in answer.json()["error"]


def test_a_server_that_stands_for_triton_refuses_what_triton_refuses(start: Any) -> None:
    with start("slow", "--refuse-large", runtime=replace(RUNTIME, max_batch_size=2)) as server, server.client() as http:
        assert http.post("/invocations", content=steps(1, 1)).status_code == 200
        answer = http.post("/invocations", content=steps(1, 1, 1))
        assert answer.status_code == 400
        assert "1 to 2 rows" in answer.json()["error"]


def test_requests_that_the_kernel_holds_when_sigterm_comes_are_answered(start: Any, read: Read) -> None:
    """The process is stopped meanwhile: connections wait to be accepted, requests to be read, and then SIGTERM too."""
    with start("linear", runtime=RUNTIME) as server, ExitStack() as stack:
        known = [connect(server, stack) for _ in range(8)]
        for connection in known:
            connection.sendall(request(ONE_ROW))
            assert read(connection, answers=1)[0][0] == 200
        server.process.send_signal(signal.SIGSTOP)
        fresh = [connect(server, stack) for _ in range(40)]
        for connection in (*known, *fresh):
            connection.sendall(request(ONE_ROW))
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGCONT)
        for connection in (*known, *fresh):
            assert [answer[0] for answer in read(connection, answers=-1)] == [200]
        assert server.process.wait(timeout=60) == 0
