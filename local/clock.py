"""The clocks of the local stack's services: the stack's own time, or one that a test moves by hand.

What waits on AWS (statuses, baking, cooldowns, alarms' periods) waits on one of these, so that hours can pass in
seconds, and a test says when they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Protocol, Self

from serving.aws.clock import StackTime, read, write
from serving.errors import LocalStackError

MAX_PACE = 240.0
"""Services look at most four times a second: a minute must not be shorter, or alarms of one minute miss periods."""

FILE = "clock.json"
_LEAST_LOOK_S = 60.0 / MAX_PACE
_FOLLOW_S = 0.2
_EXACT_S = 1e-3
_TURNS = 20
"""How often `ManualClock` lets other tasks run after it woke one; each may sleep anew."""


def checked_pace(pace: float) -> float:
    """Give the pace back.

    Raises:
        LocalStackError: it is slower than the machine's, or too fast for what looks every so often.

    """
    if not 1 <= pace <= MAX_PACE:
        raise LocalStackError(f"pace: got {pace:g}; allowed: 1 to {MAX_PACE:g}; give 60 for a minute a second")
    return pace


def begin(path: Path, *, pace: float) -> None:
    """Write the time of a stack that starts: it goes on from where it was where its state was kept.

    Raises:
        LocalStackError: a pace that is not allowed.

    """
    wall_s = time.time()
    known = read(path) if path.exists() else StackTime.started(pace=1.0, wall_s=wall_s)
    write(path, known.at_pace(checked_pace(pace), wall_s=wall_s))


def is_ahead(path: Path) -> bool:
    """Say whether the stack whose time lies there is at a later time than the machine; one without a file is not."""
    wall_s = time.time()
    return path.exists() and read(path).smooth(wall_s) > wall_s + _EXACT_S


def look_s(every_s: float, *, pace: float) -> float:
    """Give the stack's seconds between two looks: as wanted, but a quarter of the machine's second at least."""
    return max(every_s, _LEAST_LOOK_S * pace)


class Clock(Protocol):
    """What time it is, and waiting."""

    def now(self) -> float:
        """Give the seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Return when that many seconds have passed on this clock; at once but for other tasks if none have to."""


class SystemClock:
    """A stack's time, or the machine's; it never goes back, whatever the stack's time does."""

    def __init__(self, stack_time: StackTime | None = None) -> None:
        self._offset_s = time.time() - time.monotonic()
        self.stack_time = stack_time if stack_time is not None else StackTime.started(pace=1.0, wall_s=self._wall_s())
        self._latest_s = -math.inf
        self._moved = asyncio.Event()

    @classmethod
    def of_stack(cls, path: Path) -> Self:
        """Give the clock of the stack whose time lies there; the machine's where none does."""
        return cls(read(path) if path.exists() else None)

    def now(self) -> float:
        """Give the seconds since the epoch."""
        self._latest_s = max(self._latest_s, self.stack_time.smooth(self._wall_s()))
        return self._latest_s

    async def sleep(self, seconds: float) -> None:
        """Return when that many seconds have passed, or were jumped over."""
        due = self.now() + seconds
        while (left := due - self.now()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), left / self.stack_time.pace)
        await asyncio.sleep(0)

    def move(self, stack_time: StackTime) -> None:
        """Go by another time from now on; whoever sleeps past it wakes."""
        self.stack_time = stack_time
        woken, self._moved = self._moved, asyncio.Event()
        woken.set()

    async def keep(self, path: Path, *, offset_s: Callable[[], float]) -> None:
        """Let the file of the stack's time be off by what is asked for, and go by it; until cancelled.

        A file that cannot be read moves nothing.
        """
        while True:
            await asyncio.sleep(_FOLLOW_S)
            with contextlib.suppress(LocalStackError):
                found, wanted_s = read(path), offset_s()
                if found.offset_s != wanted_s:
                    found = found.moved_to(wanted_s, wall_s=time.time())
                    write(path, found)
                if found != self.stack_time:
                    self.move(found)

    def _wall_s(self) -> float:
        # not the machine's clock itself, which may be set while sleepers wait
        return self._offset_s + time.monotonic()


class ManualClock:
    """A time that stands still until `advance`; sleepers wake in the order in which they are due."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Give the seconds since the epoch."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Return when `advance` has come that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Let time pass: each sleeper wakes at its own moment, and what it does then may sleep again."""
        end = self._now + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._now, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
                await self._settle()
        self._now = end

    async def _settle(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
