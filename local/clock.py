"""The time of the local stack: the machine's, a faster one, or one that a test moves by hand.

What waits on AWS (statuses, baking, cooldowns, alarms' periods) waits on one of these, so that hours can pass in
seconds, and a test says when they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import time
from itertools import count
from typing import Protocol

from serving.errors import LocalStackError

_TURNS = 20
"""How often `ManualClock` lets other tasks run after it woke one; each may sleep anew."""


class Clock(Protocol):
    """What time it is, and waiting."""

    def now(self) -> float:
        """Give the seconds since the epoch."""

    async def sleep(self, seconds: float) -> None:
        """Return when that many seconds have passed on this clock; at once but for other tasks if none have to."""


class SystemClock:
    """The machine's time, `pace` times as fast from when it was made; `jump` moves it forward."""

    def __init__(self, *, pace: float = 1.0) -> None:
        if not pace > 0:
            raise LocalStackError(f"pace of a clock: got {pace:g}; allowed: above 0; give 1 for the machine's time")
        self._pace = pace
        self._epoch = time.time()
        self._began = time.monotonic()
        self._jumped = 0.0
        self._jump = asyncio.Event()

    def now(self) -> float:
        """Give the seconds since the epoch."""
        return self._epoch + self._jumped + (time.monotonic() - self._began) * self._pace

    async def sleep(self, seconds: float) -> None:
        """Return when that many seconds have passed, or were jumped over."""
        due = self.now() + seconds
        while (left := due - self.now()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._jump.wait(), left / self._pace)
        await asyncio.sleep(0)

    def jump(self, seconds: float) -> None:
        """Move forward at once; whoever sleeps past the new time wakes.

        Raises:
            LocalStackError: backward, which would make sleepers wait for the time that was taken away.

        """
        if seconds < 0:
            raise LocalStackError(f"jump of a clock: got {seconds:g} s; allowed: 0 or more; a clock only goes forward")
        self._jumped += seconds
        woken, self._jump = self._jump, asyncio.Event()
        woken.set()


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
