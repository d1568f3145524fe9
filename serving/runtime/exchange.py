"""One request, as a connection read it, and the place of its answer: whole, or piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

import orjson

JSON = b"application/json"
_ERROR = 400
_STATUS_LINES = {
    status.value: b"HTTP/1.1 %d %s\r\ncontent-type: " % (status, status.phrase.encode()) for status in HTTPStatus
}
OK = _STATUS_LINES[200]
"""The first line of a good answer, and the name of the second."""


class Cancellable(Protocol):
    """What an exchange waits for."""

    def cancel(self) -> None:
        """Forget it: the client is gone."""
        ...


class Place(Protocol):
    """The connection an exchange is on."""

    def closes_after(self, exchange: Exchange) -> bool:
        """Whether nothing may follow the answer."""
        ...

    def takes(self, exchange: Exchange) -> bool:
        """Whether it is this exchange's turn, and its client reads."""
        ...

    def failed(self, exchange: Exchange, status: int) -> bytes:
        """Tell of an error; gives the header line by which its client can ask about it."""
        ...

    def send(self, exchange: Exchange, lines: bytes, body: bytes) -> None:
        """Send a whole answer, behind those before it; `lines` are its status line and header lines."""
        ...

    def flush(self) -> None:
        """Write the answers whose turn it is."""
        ...

    def close(self) -> None:
        """Close behind what was written."""
        ...


class Head:
    """What a request says before its body; equal bytes are one object, so `route` is found once."""

    __slots__ = (
        "body_bytes",
        "chunks",
        "echo",
        "headers",
        "keep_alive",
        "method",
        "opens",
        "path",
        "request_id",
        "route",
    )

    def __init__(self) -> None:
        self.method = b""
        self.path = b""
        self.headers: dict[bytes, bytes] = {}
        self.keep_alive = True
        self.chunks = True
        """Whether the client can read an answer in chunks; HTTP/1.0 cannot."""
        self.body_bytes = 0
        self.request_id = b""
        self.echo = b""
        """Whole header lines that go back with every answer."""
        self.route: Callable[[Exchange], None] | None = None
        self.opens: type[Exchange] = Exchange
        """What a request with this head becomes."""


class Exchange:
    """One request and the place of its answer."""

    __slots__ = ("arrived_s", "body", "connection", "data", "head", "job", "keep_alive", "streaming")

    def __init__(self, connection: Place, head: Head, body: bytes, arrived_s: float) -> None:
        self.connection = connection
        self.head = head
        self.body = body
        self.keep_alive = head.keep_alive
        self.arrived_s = arrived_s
        self.job: Cancellable | None = None
        self.data: bytes | None = None
        """What is to be written next; nothing: it is not known yet."""
        self.streaming: Stream | None = None

    def answer(self, status: int, body: bytes, content_type: bytes = JSON, extra: bytes = b"") -> None:
        """Send an answer, behind those of the requests that came before; `extra` are whole header lines."""
        self.job = None
        if status >= _ERROR:
            extra += self.connection.failed(self, status)
        lines = b"%s%s\r\ncontent-length: %d\r\n%s" % (_STATUS_LINES[status], content_type, len(body), extra)
        self.connection.send(self, lines, b"" if self.head.method == b"HEAD" else body)

    def cancel(self) -> None:
        """Forget it: the client is gone."""
        job, stream = self.job, self.streaming
        if job is not None:
            job.cancel()
        if stream is not None:
            stream.wake(gone=True)

    def fail(self, status: int, text: str, extra: bytes = b"") -> None:
        """Send an error as JSON."""
        self.answer(status, orjson.dumps({"error": text}), extra=extra)

    def stream(self, status: int, content_type: bytes = JSON, extra: bytes = b"") -> Stream:
        """Begin an answer whose size is not known; `job` stays what is cancelled when the client goes."""
        if status >= _ERROR:
            extra += self.connection.failed(self, status)
        if not self.head.chunks:
            self.keep_alive = False  # its end is the end of the connection
        if not self.keep_alive or self.connection.closes_after(self):
            self.keep_alive = False
            extra += b"connection: close\r\n"
        if self.head.chunks:
            extra += b"transfer-encoding: chunked\r\n"
        self.data = b"%s%s\r\n%s%s\r\n" % (_STATUS_LINES[status], content_type, self.head.echo, extra)
        self.streaming = stream = Stream(self)
        self.connection.flush()
        return stream


class Stream:
    """The body of an answer, sent as it is made and no faster than its client reads.

    Write a piece, then wait with `drained` before making the next; `end` is the last call, or `abort` where the rest
    cannot be had, which the client sees as a broken body. All of it happens on the loop.
    """

    __slots__ = ("_exchange", "_gone", "_waiter")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._gone = False
        self._waiter: asyncio.Future[None] | None = None

    def write(self, piece: bytes) -> None:
        """Send a piece, or keep it until the answers before it are written."""
        exchange = self._exchange
        if self._gone or not piece or exchange.head.method == b"HEAD":
            return
        framed = b"%x\r\n%s\r\n" % (len(piece), piece) if exchange.head.chunks else piece
        exchange.data = framed if exchange.data is None else exchange.data + framed
        exchange.connection.flush()

    async def drained(self) -> None:
        """Wait until the client has read nearly all that was written.

        Raises:
            ConnectionResetError: the client is gone.

        """
        if not self._gone and not self._exchange.connection.takes(self._exchange):
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._gone:
            raise ConnectionResetError("client: closed the connection in the middle of an answer")

    def end(self) -> None:
        """Say that the answer is whole."""
        exchange = self._exchange
        exchange.job = exchange.streaming = None
        if self._gone:
            return
        last = b"0\r\n\r\n" if exchange.head.chunks and exchange.head.method != b"HEAD" else b""
        exchange.data = last if exchange.data is None else exchange.data + last
        exchange.connection.flush()

    def abort(self) -> None:
        """Close the connection, so that nobody takes a part for the whole."""
        self._exchange.job = self._exchange.streaming = None
        if not self._gone:
            self._exchange.connection.close()

    def wake(self, *, gone: bool = False) -> None:
        """Let the one who makes the answer go on."""
        self._gone = self._gone or gone
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
