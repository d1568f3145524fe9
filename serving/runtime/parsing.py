"""Bytes of one connection to whole requests, within limits: heads are parsed once, bodies are counted as they come."""

from __future__ import annotations

from time import monotonic
from typing import NoReturn, Protocol

import httptools

from serving.runtime.exchange import Head
from serving.runtime.framing import LISTS, READ, refused, too_large
from serving.runtime.headers import request_id
from serving.runtime.settings import Limits

FAILED = "server: failed on this request; its log says why; report it"
_MOST_PIECES = 4096
_MOST_REMEMBERED = 1024
_MOST_REMEMBERED_BYTES = 2048
_FRAMING_BYTES_A_BODY_BYTE = 8
"""A chunk of one byte costs five more; beyond that, chunk extensions and trailers are no honest client's."""


class Owner(Protocol):
    """Who takes the requests of a parser."""

    def take(self, head: Head, body: bytes, now_s: float) -> None:
        """Take a whole request."""
        ...

    def refuse(self, status: int, text: str) -> None:
        """Take that the request being read cannot be read to its end."""
        ...

    def proceed(self) -> None:
        """Take that a client waits to be told that its body is welcome."""
        ...

    def report(self, error: Exception) -> None:
        """Take a fault of the server's own."""
        ...


class _RefusedError(Exception):
    """Ends the parsing of a request that was answered already."""


class RequestParser:
    """The requests of one connection; `heads` holds those that any connection saw whole."""

    __slots__ = (
        "_began",
        "_body",
        "_body_bytes",
        "_current",
        "_framing_bytes",
        "_head",
        "_head_bytes",
        "_heads",
        "_limits",
        "_owner",
        "_parser",
        "started_s",
        "stopped",
    )

    def __init__(self, owner: Owner, *, heads: dict[bytes, Head], limits: Limits) -> None:
        self._owner = owner
        self._heads = heads
        self._limits = limits
        self._current: Head | None = None
        self._head: Head | None = None
        self._began = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._head_bytes = 0
        self._framing_bytes = 0
        self._parser = httptools.HttpRequestParser(self)
        self.started_s: float | None = None
        """When the request began that is being read; none: nothing is."""
        self.stopped = False
        """Whether nothing more is read."""

    def stop(self) -> None:
        """Read nothing more, and forget what was read of a request."""
        self.stopped = True
        self._body, self._current = [], None  # parser and owner hold each other until the collector comes

    def abandon(self) -> Head:
        """Read nothing more; gives what is known of the head of the request being read."""
        head = self._current if self._current is not None else Head()
        self.started_s = None
        self.stop()
        return head

    def read(self, data: bytes, now_s: float) -> None:
        """Read what came; whole requests are handled inside the call."""
        at = 0
        heads = self._heads
        while self.started_s is None and not self.stopped:
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
                self._owner.take(head, data[end:at], now_s)
            else:
                break
        if at < len(data) and not self.stopped:
            self._parse(data[at:] if at else data)

    def _parse(self, data: bytes) -> None:
        began = self._began
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.stopped = True  # the request itself was handled; what follows is another protocol
        except httptools.HttpParserCallbackError as error:
            if not self.stopped:
                self._owner.report(error)
                self._owner.refuse(500, FAILED)
        except httptools.HttpParserError as error:
            if not self.stopped:
                self._owner.refuse(400, f"request: got no HTTP/1.1 ({error}); allowed RFC 9112; use an HTTP client")
        if self.started_s is not None and not self.stopped and began == self._began:
            self._count_unfinished(len(data))

    def _parse_head(self, data: bytes) -> None:
        """Parse the bytes to an empty line, and keep what they say if they are one head, whole and nothing else."""
        began = self._began
        self._parse(data)
        head, heads = self._head, self._heads
        if head is None or not head.method or self._began != began + 1 or self._body_bytes or self.stopped:
            return
        chunked = b"transfer-encoding" in head.headers
        if head.keep_alive and not chunked and b"expect" not in head.headers and len(data) <= _MOST_REMEMBERED_BYTES:
            if len(heads) >= _MOST_REMEMBERED:
                heads.clear()
            heads[data] = head

    def _count_unfinished(self, received: int) -> None:
        """Bound what the parser keeps to itself: unfinished header lines, chunk extensions and trailers."""
        self._framing_bytes += received
        limit = self._limits.max_head_bytes
        if self._framing_bytes > limit + _FRAMING_BYTES_A_BODY_BYTE * self._body_bytes:
            self._owner.refuse(431, f"request: got more than {limit} bytes around its body; send fewer headers")

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
        limit = self._limits.max_head_bytes
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
            max_body_bytes=self._limits.max_body_bytes,
        )
        if refusal is not None:
            self._refuse_now(*refusal)
        current.body_bytes = int(headers.get(b"content-length", b"0"))
        if b"expect" in headers:
            self._owner.proceed()

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body."""
        self._body.append(data)
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.max_body_bytes:
            self._refuse_now(413, too_large(f"{self._body_bytes} and more", self._limits.max_body_bytes))
        if len(self._body) > _MOST_PIECES:
            self._body = [b"".join(self._body)]

    def on_message_complete(self) -> None:
        """Hand over a whole request."""
        head = self._current
        if head is None or self.stopped:
            return
        pieces, self._body = self._body, []
        self._current = None
        self.started_s = None
        self._owner.take(head, pieces[0] if len(pieces) == 1 else b"".join(pieces), monotonic())

    def _refuse_now(self, status: int, text: str) -> NoReturn:
        self._owner.refuse(status, text)
        raise _RefusedError
