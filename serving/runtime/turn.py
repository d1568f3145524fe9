"""One turn of the event loop: what all sockets gave is read together, and what that set in motion happens right after.

Between two system calls an interpreter finds its caches cold, so that reading requests one by one as their sockets are
read costs about twice as much as reading them in one go. A turn also has one time: requests that came together arrived
together.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Protocol


class Reader(Protocol):
    """What reads the bytes of one socket."""

    def read(self, data: bytes, now_s: float) -> None:
        """Read what came, at this time."""
        ...


class Loop(Protocol):
    """What calls back soon."""

    def call_soon(self, callback: Callable[[], None], /) -> object:
        """Call, after what is going on now."""
        ...

    def call_exception_handler(self, context: dict[str, object], /) -> None:
        """Tell of an error that nobody waits for."""
        ...


class Turn:
    """Gathers what sockets give until all were looked at; reads it then, and calls back who asked for it meanwhile."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._received: list[tuple[Reader, bytes]] = []
        self._after: list[Callable[[], None]] = []
        self._reading = False

    def received(self, reader: Reader, data: bytes) -> None:
        """Keep what a socket gave until the end of the turn."""
        received = self._received
        received.append((reader, data))
        if len(received) == 1:
            self._loop.call_soon(self.end)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call once everything of this turn is read; outside of it, in the next iteration of the loop."""
        if self._reading:
            self._after.append(callback)
        else:
            self._loop.call_soon(callback)

    def end(self) -> None:
        """Read all that was received, and do what follows from it."""
        received, self._received = self._received, []
        now_s = monotonic()
        self._reading = True
        for reader, data in received:
            try:
                reader.read(data, now_s)
            except Exception as error:  # noqa: BLE001 - the others came in the same turn by chance alone
                self._failed(error)
        self._reading = False
        after, self._after = self._after, []
        for callback in after:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - as the loop does with its own
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._loop.call_exception_handler({"message": "a turn of the server failed", "exception": error})
