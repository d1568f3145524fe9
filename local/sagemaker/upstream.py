"""HTTP/1.1 to a model server on this machine over kept connections: little more than the bytes themselves.

A general client costs more than a small model's whole answer; here one request is one write and one parse.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import cast

import httptools

from serving.errors import EndpointError

HOST = "127.0.0.1"
_MAX_IDLE = 128


class UnreachableError(EndpointError):
    """No connection could be made, so the server has seen nothing of the request."""


def not_connected(port: int, error: OSError) -> EndpointError:
    """Say that no connection was made: the server is gone if it refuses, but not if this process has no more files."""
    gone = isinstance(error, ConnectionError)
    kind = UnreachableError if gone else EndpointError
    return kind(f"the model server on port {port} cannot be reached: {error}")


@dataclass(slots=True)
class Answer:
    """What the model server said."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class _Connection(asyncio.Protocol):
    """One connection: one request at a time."""

    def __init__(self) -> None:
        self.keeps = True
        self.untouched = True
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._reset()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        self.untouched = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(EndpointError(f"the model server sent no HTTP: {error}"))
            self.close()

    def eof_received(self) -> None:
        if self._headed and ends_with_connection(self._answer.headers):
            self.on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.keeps = False
        self._fail(EndpointError(f"the model server closed the connection: {exc or 'end of stream'}"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._headed = True

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()
        self._answer.body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self.keeps = self.keeps and self._parser.should_keep_alive()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(self._answer)

    @property
    def usable(self) -> bool:
        return self.keeps and self._transport is not None and not self._transport.is_closing()

    async def ask(self, head: bytes, body: bytes) -> Answer:
        if self._transport is None:
            raise EndpointError("the connection to the model server was never made")
        self._reset()
        self._waiting = asyncio.get_running_loop().create_future()
        if len(body) <= len(head):
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        return await self._waiting

    def close(self) -> None:
        self.keeps = False
        if self._transport is not None:
            self._transport.close()

    def _reset(self) -> None:
        self.untouched = True
        self._parser = httptools.HttpResponseParser(self)
        self._answer = Answer()
        self._chunks: list[bytes] = []
        self._headed = False

    def _fail(self, error: EndpointError) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)


def ends_with_connection(headers: dict[str, str]) -> bool:
    """Say whether an answer's body ends where its connection does (RFC 9112, 6.3)."""
    return "content-length" not in headers and "transfer-encoding" not in headers


def request_head(path: str, headers: dict[str, str], *, port: int, length: int) -> bytes:
    """Give the head of one POST of `length` bytes."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\nhost: {HOST}:{port}\r\n{lines}content-length: {length}\r\n\r\n".encode("latin-1")


class Upstream:
    """Kept connections to one port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._idle: list[_Connection] = []
        self._closed = False

    async def post(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Send one POST and give the answer; cancelling it closes the connection, which the server sees.

        A kept connection that the server closed before a byte of the answer came is tried once more, anew: the server
        had gone away meanwhile, it cannot have answered.

        Raises:
            UnreachableError: there is no server.
            EndpointError: there is no way to it, or it went away before it had answered.

        """
        encoded = request_head(path, headers, port=self.port, length=len(body))
        kept = self._take()
        if kept is not None:
            try:
                return await self._ask(kept, encoded, body)
            except EndpointError:
                if not kept.untouched:
                    raise
        return await self._ask(await self._connect(), encoded, body)

    def close(self) -> None:
        """Close all connections that are not in use; those in use close after their answer."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def _connect(self) -> _Connection:
        try:
            _, connection = await asyncio.get_running_loop().create_connection(_Connection, HOST, self.port)
        except OSError as error:
            raise not_connected(self.port, error) from error
        return connection

    async def _ask(self, connection: _Connection, head: bytes, body: bytes) -> Answer:
        try:
            answer = await connection.ask(head, body)
        except BaseException:
            connection.close()
            raise
        if connection.usable and not self._closed and len(self._idle) < _MAX_IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return answer
