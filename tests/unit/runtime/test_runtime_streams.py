"""Answers in pieces: RFC 9112's chunks, in their turn, and never a part for the whole."""

from __future__ import annotations

import asyncio
import http.client
import io
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
    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class App:
    def __init__(self) -> None:
        self.limits = Limits()
        self.draining = False
        self.connections: set[Connection] = set()
        self.heads: dict[bytes, Head] = {}
        self.journal = Journal(slow_ms=1000, write=lambda _: None)
        self.exchanges: list[Exchange] = []

    def route(self, head: Head) -> Callable[[Exchange], None]:
        del head
        return self.handle

    def handle(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)


def asked(*requests: bytes) -> tuple[App, Connection, Transport]:
    app, transport = App(), Transport()
    connection = Connection(app, cast("asyncio.AbstractEventLoop", None))
    connection.connection_made(cast("Any", transport))
    connection.data_received(b"".join(requests))
    return app, connection, transport


GET = b"GET /s HTTP/1.1\r\nhost: x\r\n\r\n"


class Wire(io.BytesIO):
    """What `http.client` reads answers from."""

    def makefile(self, *_: object, **__: object) -> Wire:
        return self

    def close(self) -> None:
        """Stay open: the next answer is behind this one."""


def parsed(wire: Wire, method: str = "GET") -> tuple[http.client.HTTPResponse, bytes]:
    response = http.client.HTTPResponse(cast("Any", wire), method=method)
    response.begin()
    return response, response.read()


@given(st.lists(st.binary(max_size=50)), st.lists(st.binary(max_size=50)), st.permutations(range(3)))
def test_pieces_arrive_whole_and_between_the_answers_around_them(
    first: list[bytes], third: list[bytes], order: list[int]
) -> None:
    app, _, transport = asked(GET * 3)
    for number in order:
        exchange = app.exchanges[number]
        if number == 1:
            exchange.answer(200, b"whole")
            continue
        stream = exchange.stream(200, b"text/plain")
        for piece in first if number == 0 else third:
            stream.write(piece)
        stream.end()
    wire = Wire(transport.written)
    bodies = [parsed(wire)[1] for _ in range(3)]
    assert bodies == [b"".join(first), b"whole", b"".join(third)]
    assert wire.read() == b""
    assert not transport.closed


def test_an_answer_in_pieces_is_written_as_it_is_made() -> None:
    app, _, transport = asked(GET)
    stream = app.exchanges[0].stream(200, b"text/event-stream", b"x-a: b\r\n")
    assert b"transfer-encoding: chunked\r\n" in transport.written
    stream.write(b"data: 1\n\n")
    assert transport.written.endswith(b"9\r\ndata: 1\n\n\r\n")
    stream.end()
    assert transport.written.endswith(b"0\r\n\r\n")


def test_http_1_0_reads_pieces_until_the_connection_ends() -> None:
    app, _, transport = asked(b"GET /s HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    stream = app.exchanges[0].stream(200)
    stream.write(b"ab")
    assert not transport.closed
    stream.end()
    assert transport.closed
    response, body = parsed(Wire(transport.written))
    assert (response.getheader("transfer-encoding"), body) == (None, b"ab")


def test_head_gets_no_piece() -> None:
    app, _, transport = asked(b"HEAD /s HTTP/1.1\r\nhost: x\r\n\r\n")
    stream = app.exchanges[0].stream(200)
    stream.write(b"ab")
    stream.end()
    assert transport.written.endswith(b"\r\n\r\n")
    assert b"ab" not in transport.written


def test_an_answer_that_breaks_off_is_not_whole() -> None:
    app, _, transport = asked(GET)
    stream = app.exchanges[0].stream(200)
    stream.write(b"ab")
    stream.abort()
    assert transport.closed
    with pytest.raises(http.client.IncompleteRead):
        parsed(Wire(transport.written))


def test_a_drain_closes_behind_the_last_piece() -> None:
    app, _, transport = asked(GET)
    app.draining = True
    stream = app.exchanges[0].stream(200)
    assert b"connection: close\r\n" in transport.written
    assert not transport.closed
    stream.end()
    assert transport.closed


def test_a_lost_client_cancels_what_is_streamed_to_it() -> None:
    class Job:
        cancelled = 0

        def cancel(self) -> None:
            self.cancelled += 1

    app, connection, transport = asked(GET)
    job = app.exchanges[0].job = Job()
    stream = app.exchanges[0].stream(200)
    connection.connection_lost(None)
    written = transport.written
    stream.write(b"late")
    stream.end()
    assert (job.cancelled, transport.written) == (1, written)
