"""Good, bad, hurried and vanishing clients all at once: each gets its right status, and the server stays as it was.

`make soak` does it for ten minutes (STREAMHUB_SOAK_S says otherwise); every test run does it for two seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from serving.spec.runtime import TritonRuntime

SECONDS = float(os.environ.get("STREAMHUB_SOAK_S", "600"))
WEIGHTS, TABLE = (1.0, -2.0, 0.5, 4.0), (0.0, 10.0, 20.0)
RUNTIME = TritonRuntime(device="cpu", max_batch_size=16, max_queue_size=64)
GROWTH_BYTES = 8 << 20
"""What arenas and caches of a fixed size may still take after a fifth of the time."""


def request(body: bytes, *headers: str, path: str = "/invocations", method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: x", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def rows(x: list[list[float]], pick: list[int]) -> bytes:
    return json.dumps(
        {
            "inputs": [
                {"name": "x", "shape": [len(x), 4], "datatype": "FP32", "data": [value for row in x for value in row]},
                {"name": "pick", "shape": [len(pick), 1], "datatype": "INT64", "data": pick},
            ]
        }
    ).encode()


def expected(x: list[list[float]], pick: list[int]) -> list[float]:
    return [sum(a * b for a, b in zip(row, WEIGHTS, strict=True)) + TABLE[at] for row, at in zip(x, pick, strict=True)]


ONE = rows([[1, 1, 1, 1]], [0])
WRONG: dict[str, tuple[bytes, int]] = {
    "no JSON": (request(b"{"), 400),
    "another shape": (request(ONE.replace(b"[1, 4]", b"[2, 4]")), 400),
    "poison": (request(rows([[1, 1, 1, 1]], [99])), 500),
    "no such path": (request(b"", path="/nowhere", method="GET"), 404),
    "another method": (request(b"", path="/invocations", method="GET"), 405),
    "compressed": (request(ONE, "content-encoding: br"), 415),
    "a header size that is none": (
        request(ONE, "inference-header-content-length: x", path="/v2/models/linear/infer"),
        400,
    ),
    "too large": (b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n", 413),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
}


@dataclass
class Soak:
    """Clients of one server until a time; what each kind was answered."""

    port: int
    until_s: float
    random: random.Random = field(default_factory=lambda: random.Random(5))  # noqa: S311 - a seeded mix of requests
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)

    async def ask(self, data: bytes, streams: Any = None) -> tuple[int, bytes]:
        """Send one request, on a connection of its own if none is given, and read its answer."""
        reader, writer = streams or await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            return int(head.split()[1]), await asyncio.wait_for(reader.readexactly(length), 60)
        finally:
            if streams is None:
                writer.close()

    async def keep_asking(self) -> None:
        """Be a good client: one connection, right answers, now and then more rows than a batch has."""
        streams = await asyncio.open_connection("127.0.0.1", self.port)
        while monotonic() < self.until_s:
            count = self.random.choice([1, 1, 1, 2, 5, 16, 40])
            x = [[self.random.random() for _ in range(4)] for _ in range(count)]
            pick = [self.random.randrange(3) for _ in range(count)]
            status, body = await self.ask(request(rows(x, pick)), streams)
            self.statuses["good", status] += 1
            if status == 200:
                assert json.loads(body)["outputs"][0]["data"] == pytest.approx(expected(x, pick), rel=1e-4, abs=1e-4)
        streams[1].close()

    async def keep_erring(self) -> None:
        while monotonic() < self.until_s:
            kind = self.random.choice(list(WRONG))
            status, _ = await self.ask(WRONG[kind][0])
            self.statuses[kind, status] += 1

    async def keep_hurrying(self) -> None:
        """Come in crowds that have hardly any time."""
        data = request(ONE, "x-streamhub-timeout-ms: 2")
        while monotonic() < self.until_s:
            for status, _ in await asyncio.gather(*(self.ask(data) for _ in range(60))):
                self.statuses["hurried", status] += 1

    async def keep_leaving(self) -> None:
        """Leave in the middle of a head, of a body, or before the answer comes."""
        data = request(ONE)
        while monotonic() < self.until_s:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(data[: self.random.choice([1, 40, len(data) - 5, len(data)])])
            await writer.drain()
            if self.random.random() < 0.5:
                writer.transport.abort()
            else:
                writer.close()
            self.statuses["left", 0] += 1

    async def keep_probing(self) -> None:
        while monotonic() < self.until_s:
            status, _ = await self.ask(request(b"", path="/ping", method="GET"))
            self.statuses["ping", status] += 1
            await asyncio.sleep(0.05)

    async def run(self) -> None:
        clients: list[Callable[[], Awaitable[None]]] = [self.keep_asking] * 6
        clients += [self.keep_erring] * 2 + [self.keep_leaving] * 2 + [self.keep_hurrying, self.keep_probing]
        await asyncio.gather(*(client() for client in clients))


@dataclass(frozen=True)
class Resources:
    """What a process holds."""

    files: int
    threads: int
    memory_bytes: int

    @classmethod
    def of(cls, pid: int) -> Resources:
        process = Path(f"/proc/{pid}")
        pages = int((process / "statm").read_text(encoding="ascii").split()[1])
        files, threads = (len(list((process / kind).iterdir())) for kind in ("fd", "task"))
        return cls(files, threads, pages * os.sysconf("SC_PAGE_SIZE"))


def loaded(server: Any, seconds: float) -> None:
    """Let all kinds of clients loose on a server, and judge what they were answered."""
    work = Soak(server.port, monotonic() + seconds)
    asyncio.run(work.run())
    answered = {kind: {status for other, status in work.statuses if other == kind} for kind, _ in work.statuses}
    assert answered.pop("good") <= {200, 503}
    assert answered.pop("hurried") <= {200, 503, 504}
    assert answered.pop("poison", set()) <= {500, 503}
    assert answered.pop("ping") == {200}
    assert answered.pop("left") == {0}
    assert answered == {kind: {WRONG[kind][1]} for kind in answered}
    assert work.statuses["good", 200] > 0
    server.until("streamhub_connections", 1)  # the one that asks
    assert server.metric("streamhub_waiting_requests") == server.metric("streamhub_running_batches") == 0


def held(start: Any, seconds: float) -> None:
    with start("linear", runtime=RUNTIME, deadline_ms=1000.0) as server:
        pid = server.process.pid
        fresh = Resources.of(pid)
        loaded(server, 0.2 * seconds)
        warm = Resources.of(pid)
        loaded(server, 0.8 * seconds)
        end_s = monotonic() + 10
        while (after := Resources.of(pid)).files > fresh.files:  # the connection that asked last is being closed
            assert monotonic() < end_s, f"{after.files} files are open, {fresh.files} before the first client"
            sleep(0.01)
        assert after.threads == warm.threads
        assert after.memory_bytes - warm.memory_bytes < GROWTH_BYTES


def test_a_mixed_load_for_two_seconds_leaves_no_trace(start: Any) -> None:
    held(start, 2.0)


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 300)
def test_a_mixed_load_for_minutes_leaves_no_trace(start: Any) -> None:
    held(start, SECONDS)
