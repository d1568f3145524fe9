"""`python s3_server.py PORT STATE`: the local stack's S3 over HTTP, with faults on request.

POST /_test/kill?pid=&at=       SIGKILL a process at its n-th event; every request has two: it came, it was answered
POST /_test/gate?suffix=&count= hold PUTs of keys with that ending until so many have come
POST /_test/refuse?times=       answer the next requests with 503 SlowDown
POST /_test/break?after=        drop the answer of the n-th next request, after it was carried out
GET  /_test/counts              events and bytes of blobs since the last POST
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import uvicorn

from local import ministack_adapter

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Faults:
    def __init__(self, app: Any) -> None:
        self._app = app
        self._reset()

    def _reset(self) -> None:
        self.events = self.blob_bytes = self.refusals = 0
        self.kill: tuple[int, int] | None = None
        self.dropped_after = -1
        self.gate = ("", 0)
        self.waiting: list[asyncio.Event] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["path"].startswith("/_test/"):
            await self._control(scope, send)
            return
        body = await _whole_body(receive)
        if body is None:  # its sender died within it, and S3 would not store half a body either
            return
        if scope["method"] == "PUT" and "/blobs/" in scope["path"]:
            self.blob_bytes += len(body)
        if not self._event():
            return
        if self.refusals > 0:
            self.refusals -= 1
            await _answer(send, 503, SLOW_DOWN)
            return
        await self._hold(scope)
        sent: list[Any] = []

        async def keep(message: Any) -> None:
            sent.append(message)

        await self._app(scope, _replay(body), keep)
        self.dropped_after -= 1
        if not self._event() or self.dropped_after == 0:
            raise ConnectionError("the answer is lost")
        for message in sent:
            await send(message)

    def _event(self) -> bool:
        """Count, and say whether the sender lives."""
        self.events += 1
        if self.kill is None or self.events < self.kill[1]:
            return True
        if self.events == self.kill[1]:
            os.kill(self.kill[0], signal.SIGKILL)
        return False

    async def _hold(self, scope: Any) -> None:
        suffix, count = self.gate
        if not suffix or scope["method"] != "PUT" or not scope["path"].endswith(suffix):
            return
        mine = asyncio.Event()
        self.waiting.append(mine)
        if len(self.waiting) == count:
            for each in self.waiting:
                each.set()
            self.gate = ("", 0)
        await mine.wait()

    async def _control(self, scope: Any, send: Any) -> None:
        query = {key: values[0] for key, values in parse_qs(scope["query_string"].decode()).items()}
        command = scope["path"].removeprefix("/_test/")
        if command == "counts":
            await _answer(send, 200, json.dumps({"events": self.events, "blob_bytes": self.blob_bytes}).encode())
            return
        self._reset()
        if command == "kill":
            self.kill = int(query["pid"]), int(query["at"])
        elif command == "gate":
            self.gate = query["suffix"], int(query["count"])
        elif command == "refuse":
            self.refusals = int(query["times"])
        elif command == "break":
            self.dropped_after = int(query["after"])
        await _answer(send, 200, b"{}")


async def _whole_body(receive: Any) -> bytes | None:
    chunks: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def _replay(body: bytes) -> Any:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive


async def _answer(send: Any, status: int, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    port = int(sys.argv[1])
    ministack_adapter.configure(
        port=port, valkey_port=1, region="us-east-1", account="123456789012", state_dir=Path(sys.argv[2])
    )
    app = Faults(ministack_adapter.application({}))
    uvicorn.run(app, host="127.0.0.1", port=port, lifespan="off", log_level="critical", http="httptools")


if __name__ == "__main__":
    main()
