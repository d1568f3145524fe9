"""One request, as a connection read it, and the place of its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import orjson

JSON = b"application/json"
_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    413: b"Content Too Large",
    415: b"Unsupported Media Type",
    417: b"Expectation Failed",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}
_STATUS_LINES = {status: b"HTTP/1.1 %d %s\r\ncontent-type: " % (status, text) for status, text in _REASONS.items()}


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

    def flush(self) -> None:
        """Write the answers whose turn it is."""
        ...


class Head:
    """What a request says before its body; equal bytes are one object, so `route` is found once."""

    __slots__ = ("body_bytes", "headers", "keep_alive", "method", "path", "route")

    def __init__(self) -> None:
        self.method = b""
        self.path = b""
        self.headers: dict[bytes, bytes] = {}
        self.keep_alive = True
        self.body_bytes = 0
        self.route: Callable[[Exchange], None] | None = None


class Exchange:
    """One request and the place of its answer."""

    __slots__ = ("arrived_s", "body", "connection", "data", "head", "job", "keep_alive")

    def __init__(self, connection: Place, head: Head) -> None:
        self.connection = connection
        self.head = head
        self.body = b""
        self.keep_alive = True
        self.arrived_s = 0.0
        self.job: Cancellable | None = None
        self.data: bytes | None = None

    def answer(self, status: int, body: bytes, content_type: bytes = JSON, extra: bytes = b"") -> None:
        """Send an answer, behind those of the requests that came before; `extra` are whole header lines."""
        self.job = None
        if not self.keep_alive or self.connection.closes_after(self):
            self.keep_alive = False
            extra += b"connection: close\r\n"
        lines = b"%s%s\r\ncontent-length: %d\r\n%s\r\n" % (_STATUS_LINES[status], content_type, len(body), extra)
        self.data = lines if self.head.method == b"HEAD" else lines + body
        self.connection.flush()

    def fail(self, status: int, text: str, extra: bytes = b"") -> None:
        """Send an error as JSON."""
        self.answer(status, orjson.dumps({"error": text}), extra=extra)
