"""The stack's clocks: what sleeps wakes when its time has come, in order, and never by itself on a manual clock."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.clock import ManualClock, SystemClock
from serving.errors import LocalStackError


@given(delays=st.lists(st.integers(0, 50), min_size=1, max_size=12), step=st.integers(1, 60))
def test_sleepers_of_a_manual_clock_wake_at_their_own_moments_in_order(delays: list[int], step: int) -> None:
    async def run() -> list[tuple[int, float]]:
        clock, woken = ManualClock(1000.0), list[tuple[int, float]]()

        async def sleeper(delay: int) -> None:
            await clock.sleep(delay)
            woken.append((delay, clock.now() - 1000.0))

        tasks = [asyncio.create_task(sleeper(delay)) for delay in delays]
        while clock.now() < 1000.0 + 50:
            await clock.advance(step)
        await asyncio.gather(*tasks)
        return woken

    woken = asyncio.run(run())
    assert [delay for delay, _ in woken] == sorted(delays)
    assert all(at == delay for delay, at in woken)


def test_a_manual_clock_wakes_who_sleeps_again_within_the_same_advance() -> None:
    async def run() -> list[float]:
        clock, ticks = ManualClock(), list[float]()

        async def tick() -> None:
            while True:
                await clock.sleep(10)
                ticks.append(clock.now())

        task = asyncio.create_task(tick())
        await clock.advance(35)
        task.cancel()
        return ticks

    assert asyncio.run(run()) == [10, 20, 30]


def test_an_hour_of_a_fast_clock_passes_at_once() -> None:
    async def run() -> tuple[float, float]:
        clock = SystemClock(pace=36_000)
        before, began = clock.now(), time.monotonic()
        await clock.sleep(3600)
        return clock.now() - before, time.monotonic() - began

    passed, waited = asyncio.run(run())
    assert passed >= 3600
    assert waited < 60, "a tenth of a second is due"


def test_a_jump_wakes_who_sleeps_less_long_and_nobody_else() -> None:
    async def run() -> tuple[bool, bool, float]:
        clock = SystemClock()
        before = clock.now()
        short, long = asyncio.create_task(clock.sleep(600)), asyncio.create_task(clock.sleep(6000))
        await asyncio.sleep(0)
        clock.jump(3600)
        await asyncio.wait_for(short, 30)
        done = short.done(), long.done(), clock.now() - before
        long.cancel()
        return done

    short, long, passed = asyncio.run(run())
    assert (short, long) == (True, False)
    assert 3600 <= passed < 3700


def test_a_clock_neither_stands_still_nor_goes_back() -> None:
    with pytest.raises(LocalStackError, match="got 0; allowed: above 0"):
        SystemClock(pace=0)
    with pytest.raises(LocalStackError, match="a clock only goes forward"):
        SystemClock().jump(-1)
