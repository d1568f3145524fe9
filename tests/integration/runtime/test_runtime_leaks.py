"""After any number of good, wrong, broken and vanishing requests the server holds no more files and memory than before.

`make soak` does it with 100,000 requests; every test run with 3,000.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

X = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
PICK = {"name": "pick", "shape": [1, 1], "datatype": "INT64", "data": [1]}
GOOD = json.dumps({"inputs": [X, PICK]}).encode()
GROWTH_BYTES = 16 << 20
"""What allocators keep for the next burst; 100,000 requests that left a kilobyte each would be six times as much."""


def post(body: bytes, *headers: str, path: str = "/invocations") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: x", *headers, f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def kept(number: int) -> list[bytes]:
    """Requests after which a connection goes on; ids and attributes make every head another one."""
    own = [f"x-request-id: r-{number}", f"x-amzn-sagemaker-custom-attributes: trace-{number}"]
    return [
        post(GOOD),
        post(GOOD, *own),
        post(GOOD, path="/v2/models/linear/infer"),
        post(gzip.compress(GOOD), "content-encoding: gzip"),
        post(b"{", *own),
        post(GOOD[:-9], "content-type: text/csv"),
        post(json.dumps({"inputs": [X, PICK], "parameters": {"stream": True}}).encode()),
        f"GET /v2/models/none-{number} HTTP/1.1\r\nhost: x\r\n\r\n".encode(),
        b"GET /v2/models/linear/stats HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n",
    ]


ENDS = (
    b"\x16\x03\x01\r\n\r\n",
    post(GOOD)[:-20],
    b"GET /ping HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    post(GOOD, "transfer-encoding: chunked"),
    b"",
)
"""What comes last on a connection: nonsense, half a request, a close, two framings, nothing."""


def burst(port: int, number: int) -> int:
    """Open a connection, send all requests at once, read until it is closed from one side or the other."""
    requests = kept(number)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"".join(requests) + ENDS[number % len(ENDS)])
        got = b""
        while got.count(b"HTTP/1.1 ") < len(requests):
            piece = connection.recv(1 << 20)
            assert piece, got[-500:]
            got += piece
    assert b"HTTP/1.1 500" not in got
    return len(requests) + 1


def files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def closed(server: Any, *, files_before: int) -> bool:
    """Wait until no more files are open than before: the loop closes a socket some time after its connection's end."""
    server.until("streamhub_connections", 1)
    end_s = time.monotonic() + 60
    while files(server.process.pid) > files_before:
        if time.monotonic() > end_s:
            return False
        time.sleep(0.005)
    return True


@pytest.mark.parametrize("requests", [3_000, pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_nothing_is_left_of_requests_of_every_kind(start: Any, requests: int) -> None:
    with start("linear", "--idle-timeout-s", "2") as server:
        files_before = files(server.process.pid)
        for number in range(100):
            burst(server.port, number)
        assert closed(server, files_before=files_before)
        bytes_before = resident_bytes(server.process.pid)
        sent = number = 0
        while sent < requests:
            sent += burst(server.port, number)
            number += 1
        assert closed(server, files_before=files_before)
        assert resident_bytes(server.process.pid) - bytes_before < GROWTH_BYTES
