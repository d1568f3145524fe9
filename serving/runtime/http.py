"""HTTP/1.1 on one connection: bytes to requests and answers to bytes, in order, within limits.

A raw protocol over llhttp, because a framework costs more than a batch of a small model. What that makes ours: order of
pipelined answers, sizes of heads and bodies, clients that drip or do not read, and `Expect: 100-continue`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import NoReturn, Protocol, cast

import httptools

from serving.runtime.exchange import Exchange, Head
from serving.runtime.framing import LISTS, READ, refused, too_large
from serving.runtime.headers import request_id
from serving.runtime.journal import Journal
from serving.runtime.settings import Limits

_MOST_PIECES = 4096
_MOST_REMEMBERED = 1024
_MOST_REMEMBERED_BYTES = 2048
_LINGER_S = 5.0
_FAILED = "server: failed on this request; its log says why; report it"
_FRAMING_BYTES_A_BODY_BYTE = 8
"""A chunk of one byte costs five more; beyond that, chunk extensions and trailers are no honest client's."""


class App(Protocol):
    """What answers requests: a route calls `Exchange.answer` once, now or later, always on the loop."""

    limits: Limits
    draining: bool
    connections: set[Connection]
    heads: dict[bytes, Head]
    journal: Journal

    def route(self, head: Head) -> Callable[[Exchange], None]:
        """Give what answers the requests with a head."""
        ...


class Received(Protocol):
    """Who is told of bytes that came, and lets them be read by `Connection.read`: at once, or with others."""

    def __call__(self, connection: Connection, data: bytes, /) -> None:
        """Take them."""
        ...


def at_once(connection: Connection, data: bytes) -> None:
    """Let bytes be read as they come."""
    connection.read(data, monotonic())


class _RefusedError(Exception):
    """Ends the parsing of a request that was answered already."""


class Connection(asyncio.Protocol):
    """One client."""

    __slots__ = (
        "_began",
        "_body",
        "_body_bytes",
        "_current",
        "_framing_bytes",
        "_head",
        "_head_bytes",
        "_loop",
        "_max_pipelined",
        "_parser",
        "_paused",
        "_pending",
        "_received",
        "_refused",
        "_transport",
        "_unread",
        "active_s",
        "app",
        "started_s",
    )

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop, received: Received = at_once) -> None:
        self.app = app
        self._loop = loop
        self._max_pipelined = app.limits.max_pipelined
        self._received = received
        self._pending: deque[Exchange] = deque()
        self._current: Head | None = None
        self._head: Head | None = None
        self._began = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._head_bytes = 0
        self._framing_bytes = 0
        self._refused = False
        self._unread = False
        self._paused = False
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self.started_s: float | None = None
        self.active_s = monotonic()

    @property
    def idle(self) -> bool:
        """Whether no request is being read, computed or answered."""
        return not self._pending and self.started_s is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read, unless there are too many connections already."""
        self._transport = cast("asyncio.Transport", transport)
        self.app.connections.add(self)
        if len(self.app.connections) > self.app.limits.max_connections:
            self._refuse(503, "server: got too many connections; try again later", b"retry-after: 1\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel what the client does not wait for any more."""
        del exc
        self.app.connections.discard(self)
        self._refused = True
        self._body, self._current = [], None  # parser and connection hold each other until the collector comes
        pending, self._pending = self._pending, deque()
        for exchange in pending:
            exchange.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._received(self, data)

    def read(self, data: bytes, now_s: float) -> None:
        """Read what came; whole requests are handled inside the call."""
        at = 0
        heads = self.app.heads
        while self.started_s is None and not self._refused:
            end = data.find(b"\r\n\r\n", at) + 4
            if end < 4:  # noqa: PLR2004 - not found
                break
            head = heads.get(data[at:end])
            if head is None:
                began = self._began
                self._parse_head(data[at:end])
                at = end
                if began == self._began:
                    break  # empty lines: a flood of them must not be looked at one by one
            elif end + head.body_bytes <= len(data):
                at = end + head.body_bytes
                self._hand_over(head, data[end:at], now_s)
            else:
                break
        if at < len(data) and not self._refused:
            self._parse(data[at:] if at else data)

    def _parse(self, data: bytes) -> None:
        began = self._began
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refused = True  # the request itself was handled; what follows is another protocol
        except httptools.HttpParserCallbackError as error:
            if not self._refused:
                self._loop.call_exception_handler({"message": "a request failed in the server", "exception": error})
                self._refuse(500, _FAILED)
        except httptools.HttpParserError as error:
            if not self._refused:
                self._refuse(400, f"request: got no HTTP/1.1 ({error}); allowed RFC 9112; use an HTTP client")
        if self.started_s is not None and not self._refused and began == self._began:
            self._count_unfinished(len(data))

    def _parse_head(self, data: bytes) -> None:
        """Parse the bytes to an empty line, and keep what they say if they are one head, whole and nothing else."""
        began = self._began
        self._parse(data)
        head, heads = self._head, self.app.heads
        if head is None or not head.method or self._began != began + 1 or self._body_bytes or self._refused:
            return
        chunked = b"transfer-encoding" in head.headers
        if head.keep_alive and not chunked and b"expect" not in head.headers and len(data) <= _MOST_REMEMBERED_BYTES:
            if len(heads) >= _MOST_REMEMBERED:
                heads.clear()
            heads[data] = head

    def _count_unfinished(self, received: int) -> None:
        """Bound what the parser keeps to itself: unfinished header lines, chunk extensions and trailers."""
        self._framing_bytes += received
        limit = self.app.limits.max_head_bytes
        if self._framing_bytes > limit + _FRAMING_BYTES_A_BODY_BYTE * self._body_bytes:
            self._refuse(431, f"request: got more than {limit} bytes around its body; send fewer headers")

    def on_message_begin(self) -> None:
        """Open a head."""
        self._head = self._current = Head()
        self._began += 1
        self.started_s = monotonic()
        self._head_bytes = 0
        self._body_bytes = 0
        self._framing_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        if self._current is not None:
            self._current.path += url
            self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the headers that somebody reads."""
        self._count_head(len(name) + len(value))
        lower = name.lower()
        current = self._current
        if lower in READ and current is not None and not current.method:  # a trailer comes after the method is known
            before = current.headers.get(lower)
            if before is not None and lower not in LISTS:
                self._refuse_now(400, f"{lower.decode()}: got it twice; allowed once; send one of them")
            current.headers[lower] = value if before is None else b"%s,%s" % (before, value)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        limit = self.app.limits.max_head_bytes
        if self._head_bytes > limit:
            self._refuse_now(
                431, f"request: got a head of more than {limit} bytes; allowed {limit}; send fewer headers"
            )

    def on_headers_complete(self) -> None:
        """Refuse what is too large before it is sent, and let the others send it."""
        current = self._current
        if current is None:
            return
        current.method = self._parser.get_method()
        current.keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        current.chunks = self._parser.get_http_version() != "1.0"
        headers = current.headers
        current.request_id = request_id(headers)
        if b"x-request-id" in headers and current.request_id:
            current.echo = b"x-request-id: %s\r\n" % current.request_id
        refusal = refused(
            headers,
            version=self._parser.get_http_version(),
            upgrade=self._parser.should_upgrade(),
            max_body_bytes=self.app.limits.max_body_bytes,
        )
        if refusal is not None:
            self._refuse_now(*refusal)
        current.body_bytes = int(headers.get(b"content-length", b"0"))
        if b"expect" in headers and not self._pending:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body."""
        self._body.append(data)
        self._body_bytes += len(data)
        if self._body_bytes > self.app.limits.max_body_bytes:
            self._refuse_now(413, too_large(f"{self._body_bytes} and more", self.app.limits.max_body_bytes))
        if len(self._body) > _MOST_PIECES:
            self._body = [b"".join(self._body)]

    def on_message_complete(self) -> None:
        """Hand over a whole request."""
        head = self._current
        if head is None or self._refused:
            return
        pieces, self._body = self._body, []
        self._current = None
        self.started_s = None
        self._hand_over(head, pieces[0] if len(pieces) == 1 else b"".join(pieces), monotonic())

    def _hand_over(self, head: Head, body: bytes, now_s: float) -> None:
        route = head.route
        if route is None:
            route = head.route = self.app.route(head)
        exchange = head.opens(self, head, body, now_s)
        if not head.keep_alive:
            self._refused = True
        pending = self._pending
        pending.append(exchange)
        if len(pending) >= self._max_pipelined:
            self._transport.pause_reading()
        try:
            route(exchange)
        except Exception as error:  # noqa: BLE001 - a client must not wait for an answer that nobody makes
            self._loop.call_exception_handler({"message": "a request failed in the server", "exception": error})
            if exchange in pending and exchange.data is None:
                self._refused, exchange.keep_alive = True, False
                exchange.fail(500, _FAILED)

    def closes_after(self, exchange: Exchange) -> bool:
        """Whether the server is going and nothing else was asked on this connection, nor is being asked."""
        return self.app.draining and self._pending[-1] is exchange and self.started_s is None

    def send(self, exchange: Exchange, lines: bytes, body: bytes) -> None:
        """Send a whole answer, behind those before it; `lines` are its status line and header lines."""
        if not exchange.keep_alive or (self.app.draining and self.closes_after(exchange)):
            exchange.keep_alive = False
            lines += b"connection: close\r\n"
        data = b"%s%s\r\n%s" % (lines, exchange.head.echo, body)
        if len(self._pending) == 1 < self._max_pipelined and exchange.keep_alive:
            self._pending.clear()
            self.active_s = monotonic()
            self._transport.write(data)
        else:
            exchange.data = data
            self.flush()

    def failed(self, exchange: Exchange, status: int) -> bytes:
        """Tell of an error; gives the header line by which its client can ask about it."""
        head, journal = exchange.head, self.app.journal
        name = head.request_id or journal.new_id()
        seconds = monotonic() - exchange.arrived_s
        journal.failed(status=status, method=head.method, path=head.path, request_id=name, seconds=seconds)
        return b"" if head.echo else b"x-request-id: %s\r\n" % name

    def flush(self) -> None:
        """Write the answers that have no unanswered request before them."""
        pending = self._pending
        paused = len(pending) >= self._max_pipelined
        ready: list[bytes] = []
        while pending and (data := pending[0].data) is not None:
            exchange = pending[0]
            ready.append(data)
            if exchange.streaming is not None:
                exchange.data = None
                break
            pending.popleft()
        if not ready:
            return
        self.active_s = monotonic()
        self._transport.write(ready[0] if len(ready) == 1 else b"".join(ready))
        if exchange.streaming is not None:
            if not self._paused:
                exchange.streaming.wake()
        elif not exchange.keep_alive:
            self._end()
        elif paused and len(pending) < self._max_pipelined:
            self._transport.resume_reading()

    def _end(self) -> None:
        self._refused = True
        if self._unread and self._transport.can_write_eof():
            # closing while the client still sends would reset the connection before it reads why
            self._transport.write_eof()
        else:
            self._transport.close()

    def _refuse_now(self, status: int, text: str) -> NoReturn:
        self._refuse(status, text)
        raise _RefusedError

    def _refuse(self, status: int, text: str, extra: bytes = b"") -> None:
        """Answer a request that cannot be read to its end, behind those before it, and close."""
        exchange = Exchange(self, self._current if self._current is not None else Head(), b"", monotonic())
        self._current, self.started_s, self._body = None, None, []
        self._refused = self._unread = True
        exchange.keep_alive = False
        self._pending.append(exchange)
        exchange.fail(status, text, extra)

    def takes(self, exchange: Exchange) -> bool:
        """Whether it is this exchange's turn, and its client reads."""
        return not self._paused and bool(self._pending) and self._pending[0] is exchange

    def pause_writing(self) -> None:
        """Read no more from a client that does not read."""
        self._paused = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again."""
        self._paused = False
        if self._pending and (stream := self._pending[0].streaming) is not None:
            stream.wake()
        if not self._transport.is_closing() and len(self._pending) < self._max_pipelined:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close behind what was written."""
        self._refused = True
        self._transport.close()

    def expire(self, now_s: float) -> None:
        """Close a connection that drips its request, does not read its answers or has nothing to say."""
        limits = self.app.limits
        if self._unread and not self._pending:
            if now_s - self.active_s > _LINGER_S:
                self._transport.abort()
        elif self.started_s is not None:
            if now_s - self.started_s > limits.request_timeout_s:
                self._refuse(408, f"request: got no end of it in {limits.request_timeout_s:g} s; send it at once")
        elif self._transport.get_write_buffer_size() and now_s - self.active_s > limits.idle_timeout_s:
            self._transport.abort()
        elif not self._pending and now_s - self.active_s > limits.idle_timeout_s:
            self.close()
