"""More than the server can do: it says so at once, computes nothing in vain, and is well afterwards."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from serving.spec.runtime import TritonRuntime

Read = Callable[..., list[tuple[int, dict[str, str], bytes]]]
RUNTIME = TritonRuntime(device="cpu", max_batch_size=16, max_queue_size=4)
LONG = 400_000


def send(server: Any, turns: int, *headers: str) -> socket.socket:
    body = json.dumps({"inputs": [{"name": "steps", "shape": [1, 1], "datatype": "INT64", "data": [turns]}]})
    lines = ["POST /invocations HTTP/1.1", "host: x", f"content-length: {len(body)}", *headers]
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall("\r\n".join([*lines, "", body]).encode())
    return connection


def test_a_full_queue_sheds_with_retry_after_and_recovers(start: Any, read: Read) -> None:
    with start("slow", runtime=RUNTIME, deadline_ms=60_000.0) as server:
        with send(server, LONG) as busy:
            server.until("streamhub_running_batches", 1)
            waiting = [send(server, 1) for _ in range(4)]
            server.until("streamhub_waiting_requests", 4)
            with send(server, 1) as shed:
                status, headers, body = read(shed, answers=1)[0]
                assert status == 503
                assert int(headers["retry-after"]) >= 1
                assert "4 others" in json.loads(body)["error"]
            for connection in [busy, *waiting]:
                with connection:
                    assert read(connection, answers=1)[0][0] == 200
        with send(server, 1) as after:
            assert read(after, answers=1)[0][0] == 200
        assert server.metric('streamhub_requests_total,outcome="rejected"') == 1


def test_a_large_body_is_not_decoded_where_it_would_be_shed(start: Any, read: Read) -> None:
    """Nobody can tell that it is no JSON, then; a small one is read first, and is wrong."""
    with start("slow", runtime=RUNTIME, deadline_ms=60_000.0) as server, send(server, LONG) as busy:
        server.until("streamhub_running_batches", 1)
        waiting = [send(server, 1) for _ in range(4)]
        server.until("streamhub_waiting_requests", 4)
        for size, expected in ((10_000, 503), (10, 400)):
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
                connection.sendall(b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size)
                connection.sendall(b"{" * size)
                status, headers, _ = read(connection, answers=1)[0]
                assert status == expected
                assert ("retry-after" in headers) == (expected == 503)
        for connection in [busy, *waiting]:
            assert read(connection, answers=1)[0][0] == 200
            connection.close()


def test_a_request_that_waited_past_its_time_is_not_computed(slow: Any, read: Read) -> None:
    with send(slow, LONG) as busy:
        slow.until("streamhub_running_batches", 1)
        before = slow.metric("streamhub_rows_total")
        with send(slow, 1, "x-streamhub-timeout-ms: 1") as late:
            status, _, body = read(late, answers=1)[0]
        assert status in {503, 504}  # 503 once the server has learnt how long the others take
        assert "1 ms" in json.loads(body)["error"]
        assert read(busy, answers=1)[0][0] == 200
        assert slow.metric("streamhub_rows_total") - before == 1, "only the long one was computed"


def test_a_server_that_knows_how_long_it_takes_refuses_at_once(start: Any, read: Read) -> None:
    with start("slow", runtime=replace(RUNTIME, max_queue_size=64), deadline_ms=60_000.0) as server:
        for _ in range(40):
            with send(server, 2_000) as lesson:
                assert read(lesson, answers=1)[0][0] == 200
        with send(server, LONG) as busy:
            server.until("streamhub_running_batches", 1)
            with send(server, 1) as patient, send(server, 1, "x-streamhub-timeout-ms: 0.01") as hurried:
                assert read(hurried, answers=1)[0][0] == 503
                assert server.metric("streamhub_running_batches") == 1, "it was refused before the worker was free"
                assert read(patient, answers=1)[0][0] == 200
            assert read(busy, answers=1)[0][0] == 200


def test_a_flood_is_answered_or_shed_and_leaves_no_trace(start: Any, read: Read) -> None:
    with start("slow", runtime=RUNTIME, deadline_ms=500.0) as server:
        flood = [send(server, 5_000) for _ in range(200)]
        statuses = []
        for connection in flood:
            with connection:
                status, headers, _ = read(connection, answers=1)[0]
                statuses.append(status)
                assert (status == 503) == ("retry-after" in headers)
        assert set(statuses) <= {200, 503, 504}
        assert 200 in statuses
        assert 503 in statuses
        server.until("streamhub_waiting_requests", 0)
        with send(server, 1) as after:
            assert read(after, answers=1)[0][0] == 200
