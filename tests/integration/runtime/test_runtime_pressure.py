"""Who makes an answer in pieces waits for the client that reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from serving.runtime.exchange import Exchange, Head
from serving.runtime.http import Connection
from serving.runtime.journal import Journal
from serving.runtime.settings import Limits


class Transport(asyncio.Transport):
    """Takes what is written and says nothing."""

    def write(self, data: object) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False


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


async def produce(exchange: Exchange, seen: list[str]) -> None:
    stream = exchange.stream(200)
    try:
        for number in range(3):
            stream.write(b"%d" % number)
            await stream.drained()
            seen.append(f"drained {number}")
    except ConnectionResetError:
        seen.append("gone")


async def play(steps: list[str]) -> list[str]:
    """Run a producer for the second of two requests beside what happens to its connection; give what it saw."""
    app = App()
    connection = Connection(app, cast("asyncio.AbstractEventLoop", None))
    connection.connection_made(Transport())
    connection.data_received(b"GET /s HTTP/1.1\r\nhost: x\r\n\r\n" * 2)
    seen: list[str] = []
    task = asyncio.ensure_future(produce(app.exchanges[1], seen))
    happen = {
        "answer": lambda: app.exchanges[0].answer(200, b""),
        "full": connection.pause_writing,
        "read": connection.resume_writing,
        "lost": lambda: connection.connection_lost(None),
    }
    for step in steps:
        for _ in range(3):  # turns of the loop in which an unheld producer would go on
            await asyncio.sleep(0)
        seen.append(step)
        happen[step]()
    await task
    return seen


def test_who_makes_an_answer_waits_for_its_turn_and_for_a_client_that_reads() -> None:
    everything = ["drained 0", "drained 1", "drained 2"]
    assert asyncio.run(play(["answer"])) == ["answer", *everything]
    assert asyncio.run(play(["full", "answer", "read"])) == ["full", "answer", "read", *everything]


def test_who_makes_an_answer_learns_that_its_client_is_gone() -> None:
    assert asyncio.run(play(["lost"])) == ["lost", "gone"]
    assert asyncio.run(play(["full", "answer", "lost"])) == ["full", "answer", "lost", "gone"]
