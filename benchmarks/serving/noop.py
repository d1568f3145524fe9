"""The floor of the HTTP stack: asyncio.Protocol, httptools and uvloop; reads a request, answers the same bytes always.

`python -m benchmarks.serving.noop PORT ANSWER_FILE`, by the project's own Python.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import cast

import httptools
import uvloop


class Connection(asyncio.Protocol):
    """One connection; headers are parsed and the body is gathered, as any server must."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers go."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse."""
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """Take the path."""
        self._url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""

    def on_body(self, body: bytes) -> None:
        """Gather."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Answer."""
        self._body.clear()
        self._transport.write(self._answer)


async def _serve(port: int, answer: bytes) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Connection(answer), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    body = Path(sys.argv[2]).read_bytes()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    uvloop.run(_serve(int(sys.argv[1]), head + body))
