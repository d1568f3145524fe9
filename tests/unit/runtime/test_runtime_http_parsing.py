"""However the bytes are cut, and however often a head was seen, the same requests come out and the answers in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.runtime.exchange import Exchange, Head
from serving.runtime.http import Connection
from serving.runtime.journal import Journal
from serving.runtime.settings import Limits


class Transport:
    """What a connection asks of its transport."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Echo:
    """Answers with what it got, at once or when told to."""

    def __init__(self, *, heads: dict[bytes, Head] | None = None, at_once: bool = True) -> None:
        self.limits = Limits(max_pipelined=4)
        self.draining = False
        self.connections: set[Connection] = set()
        self.heads = heads if heads is not None else {}
        self.at_once = at_once
        self.journal = Journal(slow_ms=1000, write=lambda _: None)
        self.seen: list[tuple[bytes, bytes, dict[bytes, bytes], bytes]] = []
        self.waiting: list[Exchange] = []

    def route(self, head: Head) -> Callable[[Exchange], None]:
        del head
        return self.handle

    def handle(self, exchange: Exchange) -> None:
        head = exchange.head
        self.seen.append((head.method, head.path, dict(head.headers), exchange.body))
        if self.at_once:
            exchange.answer(200, exchange.body)
        else:
            self.waiting.append(exchange)


def connected(app: Echo) -> tuple[Connection, Transport]:
    transport = Transport()
    connection = Connection(app, cast("asyncio.AbstractEventLoop", None))
    connection.connection_made(cast("Any", transport))
    return connection, transport


GET = b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST /invocations HTTP/1.1\r\nhost: x\r\ncontent-type: a\r\ncontent-length: 6\r\n\r\n"
BLANKS = POST + b"\r\n\r\n\r\n"
CHUNKED = (
    b"POST /c HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\n\r\n\r\r\n0\r\ncontent-type: b\r\n\r\n"
)
HOST = {b"host": b"x"}
REQUESTS = {
    GET: (b"GET", b"/ping", HOST, b""),
    POST + b"abcdef": (b"POST", b"/invocations", {**HOST, b"content-type": b"a", b"content-length": b"6"}, b"abcdef"),
    BLANKS: (b"POST", b"/invocations", {**HOST, b"content-type": b"a", b"content-length": b"6"}, b"\r\n\r\n\r\n"),
    CHUNKED: (b"POST", b"/c", {b"transfer-encoding": b"chunked"}, b"abc\r\n\r"),
    b"\r\n" + GET: (b"GET", b"/ping", HOST, b""),
    b"\r\n\r\n" + GET: (b"GET", b"/ping", HOST, b""),
}


@given(st.lists(st.sampled_from(sorted(REQUESTS)), min_size=1, max_size=10), st.data())
def test_cuts_change_nothing(requests: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(requests)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    app = Echo()
    for _ in range(2):  # the second connection meets the heads of the first
        app.seen.clear()
        connection, transport = connected(app)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            connection.data_received(stream[start:end])
        assert app.seen == [REQUESTS[request] for request in requests]
        assert transport.written.count(b"HTTP/1.1 200 OK") == len(requests)
        assert not transport.closed


class Broken(Echo):
    """Answers nothing, by a fault of its own."""

    def handle(self, exchange: Exchange) -> None:
        del exchange
        raise ZeroDivisionError


class Told:
    """A loop that keeps what it is told of."""

    def __init__(self) -> None:
        self.errors: list[object] = []

    def call_exception_handler(self, context: dict[str, object]) -> None:
        self.errors.append(context["exception"])


@pytest.mark.parametrize("seen", [False, True], ids=["parsed", "remembered"])
def test_a_fault_of_the_server_is_answered_and_told_and_ends_the_connection(*, seen: bool) -> None:
    heads: dict[bytes, Head] = {}
    if seen:
        connected(Echo(heads=heads))[0].data_received(GET)
        for head in heads.values():
            head.route = None
    loop, transport = Told(), Transport()
    connection = Connection(Broken(heads=heads), cast("asyncio.AbstractEventLoop", loop))
    connection.connection_made(cast("Any", transport))
    connection.data_received(GET + GET)
    assert transport.written.count(b"HTTP/1.1 500 ") == transport.written.count(b"HTTP/1.1 ") == 1
    assert b"connection: close\r\n" in transport.written
    assert transport.closed
    assert [type(error) for error in loop.errors] == [ZeroDivisionError]


def test_empty_lines_are_never_taken_for_a_head() -> None:
    app = Echo()
    connection, _ = connected(app)
    connection.data_received(GET)
    connection.data_received(b"\r\n\r\n")
    connection.data_received(b"\r\n\r\n")
    assert [seen[1] for seen in app.seen] == [b"/ping"]
    assert set(app.heads) == {GET}


def test_a_head_that_asks_to_close_is_not_remembered() -> None:
    app = Echo()
    connection, transport = connected(app)
    connection.data_received(b"GET /ping HTTP/1.1\r\nconnection: close\r\n\r\n" + GET)
    assert app.heads == {}
    assert (len(app.seen), transport.closed) == (1, True)


def test_heads_are_forgotten_before_they_are_too_many() -> None:
    app = Echo()
    connection, _ = connected(app)
    for number in range(5000):
        connection.data_received(b"GET /%d HTTP/1.1\r\n\r\n" % number)
    connection.data_received(b"GET /long HTTP/1.1\r\nx: " + b"y" * 4000 + b"\r\n\r\n")
    assert len(app.seen) == 5001
    assert len(app.heads) <= 1024
    assert max(map(len, app.heads)) < 2048


@given(st.permutations(range(6)))
def test_answers_keep_the_order_of_the_requests_whichever_is_ready_first(order: list[int]) -> None:
    app = Echo(at_once=False)
    connection, transport = connected(app)
    for number in range(6):
        connection.data_received(b"GET /%d HTTP/1.1\r\n\r\n" % number)
    assert not transport.reading, "more than 4 unanswered requests stop the reading"
    for number in order:
        app.waiting[number].answer(200, b"answer %d." % number)
    bodies = [int(part.split(b".")[0]) for part in transport.written.split(b"answer ")[1:]]
    assert bodies == [0, 1, 2, 3, 4, 5]
    assert transport.reading


def test_a_drain_answers_all_and_closes_after_the_last() -> None:
    app = Echo(at_once=False)
    connection, transport = connected(app)
    connection.data_received(GET * 3)
    app.draining = True
    for number in (1, 2, 0):
        app.waiting[number].answer(200, b"")
    assert transport.written.count(b"HTTP/1.1 200 OK") == 3
    assert transport.written.count(b"connection: close") == 1
    assert transport.written.endswith(b"connection: close\r\n\r\n")
    assert transport.closed


def test_a_lost_connection_cancels_what_it_waited_for() -> None:
    class Job:
        cancelled = 0

        def cancel(self) -> None:
            self.cancelled += 1

    app, job = Echo(at_once=False), Job()
    connection, _ = connected(app)
    connection.data_received(GET * 2)
    app.waiting[1].job = job
    connection.connection_lost(None)
    assert job.cancelled == 1
    assert app.connections == set()
