"""HTTP/1.1 on one connection: bytes to requests and answers to bytes, in order, within limits.

A raw protocol over llhttp, because a framework costs more than a batch of a small model. What that makes ours: order of
pipelined answers, sizes of heads and bodies, clients that drip or do not read, and `Expect: 100-continue`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Protocol, cast

from serving.runtime.exchange import Exchange, Head
from serving.runtime.journal import Journal
from serving.runtime.parsing import FAILED, RequestParser
from serving.runtime.settings import Limits

_LINGER_S = 5.0


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


Received = Callable[[RequestParser, bytes], None]
"""Who lets bytes that came be read by their parser: at once, or with those of others."""


def at_once(parser: RequestParser, data: bytes) -> None:
    """Let bytes be read as they come."""
    parser.read(data, monotonic())


class Connection(asyncio.Protocol):
    """One client."""

    __slots__ = (
        "_loop",
        "_max_pipelined",
        "_parser",
        "_paused",
        "_pending",
        "_received",
        "_transport",
        "_unread",
        "active_s",
        "app",
    )

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop, received: Received = at_once) -> None:
        self.app = app
        self._loop = loop
        self._max_pipelined = app.limits.max_pipelined
        self._received = received
        self._pending: deque[Exchange] = deque()
        self._unread = False
        self._paused = False
        self._parser = RequestParser(self, heads=app.heads, limits=app.limits)
        self._transport: asyncio.Transport
        self.active_s = monotonic()

    @property
    def idle(self) -> bool:
        """Whether no request is being read, computed or answered."""
        return not self._pending and self._parser.started_s is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read, unless there are too many connections already."""
        self._transport = cast("asyncio.Transport", transport)
        self.app.connections.add(self)
        if len(self.app.connections) > self.app.limits.max_connections:
            self.refuse(503, "server: got too many connections; try again later", b"retry-after: 1\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel what the client does not wait for any more."""
        del exc
        self.app.connections.discard(self)
        self._parser.stop()
        pending, self._pending = self._pending, deque()
        for exchange in pending:
            exchange.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._received(self._parser, data)

    def take(self, head: Head, body: bytes, now_s: float) -> None:
        """Let a whole request be answered."""
        route = head.route
        if route is None:
            route = head.route = self.app.route(head)
        exchange = head.opens(self, head, body, now_s)
        if not head.keep_alive:
            self._parser.stopped = True
        pending = self._pending
        pending.append(exchange)
        if len(pending) >= self._max_pipelined:
            self._transport.pause_reading()
        try:
            route(exchange)
        except Exception as error:  # noqa: BLE001 - a client must not wait for an answer that nobody makes
            self.report(error)
            if exchange in pending and exchange.data is None:
                self._parser.stopped, exchange.keep_alive = True, False
                exchange.fail(500, FAILED)

    def report(self, error: Exception) -> None:
        """Tell of a fault of the server's own."""
        self._loop.call_exception_handler({"message": "a request failed in the server", "exception": error})

    def proceed(self) -> None:
        """Let a client send its body, unless answers to what it asked before come first."""
        if not self._pending:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def closes_after(self, exchange: Exchange) -> bool:
        """Whether the server is going and nothing else was asked on this connection, nor is being asked."""
        return self.app.draining and self._pending[-1] is exchange and self._parser.started_s is None

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
        self._parser.stopped = True
        if self._unread and self._transport.can_write_eof():
            # closing while the client still sends would reset the connection before it reads why
            self._transport.write_eof()
        else:
            self._transport.close()

    def refuse(self, status: int, text: str, extra: bytes = b"") -> None:
        """Answer a request that cannot be read to its end, behind those before it, and close."""
        exchange = Exchange(self, self._parser.abandon(), b"", monotonic())
        self._unread = True
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
        self._parser.stopped = True
        self._transport.close()

    def expire(self, now_s: float) -> None:
        """Close a connection that drips its request, does not read its answers or has nothing to say."""
        limits = self.app.limits
        if self._unread and not self._pending:
            if now_s - self.active_s > _LINGER_S:
                self._transport.abort()
        elif self._parser.started_s is not None:
            if now_s - self._parser.started_s > limits.request_timeout_s:
                self.refuse(408, f"request: got no end of it in {limits.request_timeout_s:g} s; send it at once")
        elif self._transport.get_write_buffer_size() and now_s - self.active_s > limits.idle_timeout_s:
            self._transport.abort()
        elif not self._pending and now_s - self.active_s > limits.idle_timeout_s:
            self.close()
