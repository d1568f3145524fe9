"""What batching must not change: the numbers, and who fails."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import httpx
import numpy as np

from serving.spec.runtime import TritonRuntime

WEIGHTS, TABLE = np.array([1.0, -2.0, 0.5, 4.0]), np.array([0.0, 10.0, 20.0])


def document(x: np.ndarray, pick: np.ndarray) -> dict[str, Any]:
    return {
        "inputs": [
            {"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.ravel().tolist()},
            {"name": "pick", "shape": list(pick.shape), "datatype": "INT64", "data": pick.ravel().tolist()},
        ]
    }


def steps(*values: int) -> dict[str, Any]:
    return {"inputs": [{"name": "steps", "shape": [len(values), 1], "datatype": "INT64", "data": list(values)}]}


async def many(server: Any, documents: list[dict[str, Any]], *, clients: int = 64) -> list[httpx.Response]:
    """Send with so many clients, each one request at a time; answers are in the order of the documents."""
    answers: dict[int, httpx.Response] = {}
    left = iter(enumerate(documents))
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits, trust_env=False) as http:

        async def client() -> None:
            for number, each in left:
                answers[number] = await http.post("/invocations", json=each)

        await asyncio.gather(*(client() for _ in range(clients)))
    return [answers[number] for number in range(len(documents))]


def test_64_clients_get_what_each_would_get_alone(linear: Any) -> None:
    generator = np.random.default_rng(1)
    before = linear.metric("streamhub_executions_total")
    asked = []
    for _ in range(640):
        rows = int(generator.integers(1, 6))
        asked.append((generator.random((rows, 4), dtype=np.float32), generator.integers(0, 3, (rows, 1))))
    answers = asyncio.run(many(linear, [document(x, pick) for x, pick in asked]))
    for (x, pick), answer in zip(asked, answers, strict=True):
        got = np.array(answer.json()["outputs"][0]["data"]).reshape(-1, 1)
        np.testing.assert_allclose(got, (x.astype(float) @ WEIGHTS)[:, None] + TABLE[pick], rtol=1e-5)
    assert linear.metric("streamhub_executions_total") - before < len(asked), "nothing was ever batched"


def test_a_poisoned_request_fails_alone(linear: Any) -> None:
    x = np.ones((1, 4), dtype=np.float32)
    picks = [99 if number % 8 == 3 else number % 3 for number in range(128)]
    answers = asyncio.run(many(linear, [document(x, np.array([[pick]])) for pick in picks]))
    for pick, answer in zip(picks, answers, strict=True):
        if pick == 99:
            assert answer.status_code == 500
            assert "out of data bounds" in answer.json()["error"]
        else:
            assert answer.json()["outputs"][0]["data"] == [3.5 + TABLE[pick]]


def test_a_wrong_request_fails_alone(linear: Any) -> None:
    right = document(np.ones((1, 4), dtype=np.float32), np.array([[1]]))
    wrong = document(np.ones((1, 5), dtype=np.float32), np.array([[1]]))
    answers = asyncio.run(many(linear, [wrong if number % 2 else right for number in range(64)]))
    assert [answer.status_code for answer in answers] == [400 if number % 2 else 200 for number in range(64)]


def test_shapes_that_differ_are_answered_side_by_side(start: Any) -> None:
    def of(texts: int, tokens: int) -> dict[str, Any]:
        return {
            "inputs": [
                {"name": "text", "shape": [1, texts], "datatype": "BYTES", "data": ["t"] * texts},
                {"name": "tokens", "shape": [1, tokens], "datatype": "INT32", "data": [7] * tokens},
            ]
        }

    sizes = [(1 + number % 3, 1 + number % 4) for number in range(60)]
    with start("text") as server:
        answers = asyncio.run(many(server, [of(*size) for size in sizes]))
    for (texts, tokens), answer in zip(sizes, answers, strict=True):
        assert [output["shape"] for output in answer.json()["outputs"]] == [[1, texts], [1, tokens]]


def test_a_cancelled_request_disappears_and_leaves_its_batch_mates_alone(slow: Any) -> None:
    """Whoever hangs up while the worker is busy is forgotten, and those around it are answered."""
    body = b'{"inputs":[{"name":"steps","shape":[1,1],"datatype":"INT64","data":[%d]}]}'

    def send(turns: int) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", slow.port), timeout=60)
        data = body % turns
        connection.sendall(b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(data) + data)
        return connection

    cancelled = 'streamhub_requests_total,outcome="cancelled"'
    before = slow.metric(cancelled)
    with send(400_000):
        slow.until("streamhub_running_batches", 1)
        waiting = [send(number) for number in range(1, 9)]
        slow.until("streamhub_waiting_requests", 8)
        for connection in waiting[::2]:
            connection.close()
        slow.until(cancelled, before + 4)
        for number, connection in list(enumerate(waiting, start=1))[1::2]:
            with connection:
                head, _, answer = connection.recv(4096).partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                assert b"[%d.0]" % number in answer


def test_as_many_batches_run_at_once_as_there_are_instances(start: Any) -> None:
    body = json.dumps(steps(400_000)).encode()
    data = b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    with start("slow", runtime=TritonRuntime(device="cpu", max_batch_size=1, instances=2)) as server:
        connections = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(3)]
        for connection in connections:
            connection.sendall(data)
        server.until("streamhub_running_batches", 2)
        assert server.metric("streamhub_waiting_requests") == 1
        for connection in connections:
            with connection:
                assert connection.recv(12) == b"HTTP/1.1 200"
