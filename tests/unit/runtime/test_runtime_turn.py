"""What sockets give in one turn is read in one go, in order, and what follows happens once all of it is read."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from serving.runtime.turn import Turn


class Loop:
    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.errors: list[object] = []

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self.soon.append(callback)

    def call_exception_handler(self, context: dict[str, object], /) -> None:
        self.errors.append(context["exception"])

    def iterate(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class Socket:
    def __init__(self, name: str, log: list[tuple[str, bytes]], turn: Turn) -> None:
        self.name, self.log, self.turn = name, log, turn
        self.times: set[float] = set()

    def read(self, data: bytes, now_s: float) -> None:
        self.times.add(now_s)
        self.log.append((self.name, data))
        self.turn.call_soon(lambda: self.log.append((self.name, b"then")))
        if data == b"bad":
            raise ZeroDivisionError


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([b"1", b"2", b"bad"])), min_size=1, max_size=20))
def test_everything_is_read_in_order_before_anything_follows_whoever_fails(came: list[tuple[str, bytes]]) -> None:
    loop = Loop()
    turn = Turn(loop)
    log: list[tuple[str, bytes]] = []
    sockets = {name: Socket(name, log, turn) for name in "abc"}
    for name, data in came:
        turn.received(sockets[name], data)
    assert log == []
    assert len(loop.soon) == 1
    loop.iterate()
    assert log == came + [(name, b"then") for name, _ in came]
    assert len(loop.errors) == sum(data == b"bad" for _, data in came)
    assert len(set().union(*(socket.times for socket in sockets.values()))) == 1


def test_a_callback_that_fails_takes_no_other_along_and_the_next_turn_is_a_new_one() -> None:
    loop = Loop()
    turn = Turn(loop)
    log: list[tuple[str, bytes]] = []
    socket = Socket("a", log, turn)

    class Failing(Socket):
        def read(self, data: bytes, now_s: float) -> None:
            del data, now_s
            turn.call_soon(lambda: log.remove(("nobody", b"")))

    for _ in range(2):
        turn.received(Failing("f", log, turn), b"")
        turn.received(socket, b"1")
        loop.iterate()
    assert log == [("a", b"1"), ("a", b"then")] * 2
    assert [type(error) for error in loop.errors] == [ValueError] * 2


def test_outside_of_a_turn_a_callback_waits_for_the_loop() -> None:
    loop, log = Loop(), list[str]()
    Turn(loop).call_soon(lambda: log.append("done"))
    assert log == []
    loop.iterate()
    assert log == ["done"]
