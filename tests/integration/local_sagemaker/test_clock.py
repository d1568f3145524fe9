"""The stack's clocks: what sleeps wakes when its time has come, in order, and never by itself on a manual clock."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.alarm_watch import AlarmWatch
from local.clock import FILE, MAX_PACE, ManualClock, SystemClock, checked_pace, look_s
from local.faults import Faults, make
from local.sagemaker.metrics import Invocation, Meter
from local.sagemaker.options import Options
from local.sagemaker.routes import Target
from serving.aws.clock import StackTime, read, write
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


def fast(pace: float) -> SystemClock:
    return SystemClock(StackTime.started(pace=pace, wall_s=time.time()))


def test_an_hour_of_a_fast_clock_passes_at_once() -> None:
    async def run() -> tuple[float, float]:
        clock = fast(36_000)
        before, began = clock.now(), time.monotonic()
        await clock.sleep(3600)
        return clock.now() - before, time.monotonic() - began

    passed, waited = asyncio.run(run())
    assert passed >= 3600
    assert waited < 60, "a tenth of a second is due"


def test_a_jump_that_is_asked_for_wakes_who_sleeps_less_long_and_nobody_else(tmp_path: Path) -> None:
    async def run() -> tuple[bool, bool, float]:
        clock = fast(1)
        write(tmp_path / FILE, clock.stack_time)
        faults = Faults(tmp_path)
        keeping = asyncio.create_task(clock.keep(tmp_path / FILE, offset_s=faults.clock_offset_s))
        before = clock.now()
        short, long = asyncio.create_task(clock.sleep(600)), asyncio.create_task(clock.sleep(6000))
        await asyncio.sleep(0)
        faults.add(make("clock-jump", seconds=3600.0))
        await asyncio.wait_for(short, 30)
        done = short.done(), long.done(), clock.now() - before
        long.cancel()
        keeping.cancel()
        return done

    short, long, passed = asyncio.run(run())
    assert (short, long) == (True, False)
    assert 3600 <= passed < 3700


def test_a_jump_back_is_written_for_every_process_and_taken_back_with_its_fault(tmp_path: Path) -> None:
    async def run() -> list[float]:
        clock, faults, offsets = fast(1), Faults(tmp_path), list[float]()
        write(tmp_path / FILE, clock.stack_time)
        keeping = asyncio.create_task(clock.keep(tmp_path / FILE, offset_s=faults.clock_offset_s))
        faults.add(make("clock-jump", name="back", seconds=-600.0))
        for wanted in (-600.0, 0.0):
            async with asyncio.timeout(30):
                while read(tmp_path / FILE).offset_s != wanted:  # noqa: ASYNC110 - another task writes a file
                    await asyncio.sleep(0.01)
            told = read(tmp_path / FILE)
            offsets.append(told.stepped(time.time()) - time.time())
            if wanted:
                faults.remove("back")
        keeping.cancel()
        return offsets

    assert asyncio.run(run()) == [pytest.approx(-600, abs=5), pytest.approx(0, abs=5)]


def test_a_sleeper_wakes_although_the_clock_was_set_back_and_time_never_does() -> None:
    async def run() -> list[float]:
        clock, seen = fast(1_000), list[float]()

        async def sleeper() -> None:
            for _ in range(5):
                seen.append(clock.now())
                await clock.sleep(60)

        task = asyncio.create_task(sleeper())
        await asyncio.sleep(0)
        for seconds in (-86_400.0, 3_600.0, -7_200.0):
            clock.move(clock.stack_time.moved_to(seconds, wall_s=time.time()))
            seen.append(clock.now())
        await asyncio.wait_for(task, 30)
        return seen

    seen = asyncio.run(run())
    assert len(seen) == 8
    assert seen == sorted(seen)


def test_a_file_that_cannot_be_read_moves_nothing(tmp_path: Path) -> None:
    async def run() -> float:
        clock = fast(1)
        (tmp_path / FILE).write_bytes(b"half a fi")
        keeping = asyncio.create_task(clock.keep(tmp_path / FILE, offset_s=lambda: 3600.0))
        before = clock.now()
        await clock.sleep(0.5)
        assert not keeping.done()
        keeping.cancel()
        return clock.now() - before

    assert asyncio.run(run()) < 60


@pytest.mark.parametrize("pace", [0, 0.5, -1, 241, float("nan"), float("inf")])
def test_a_pace_that_services_cannot_keep_is_refused(pace: float) -> None:
    with pytest.raises(LocalStackError, match="allowed: 1 to 240"):
        checked_pace(pace)


def test_services_look_as_often_as_ever_or_four_times_a_second() -> None:
    assert look_s(10, pace=1) == 10
    assert look_s(10, pace=60) == 15
    assert look_s(2, pace=MAX_PACE) == 60, "a minute, the shortest period of most alarms"


MOMENT = 2_000_000_000.0
"""Far from the machine's time."""


class Published:
    """Stands in for boto3's client of CloudWatch."""

    def __init__(self) -> None:
        self.data: list[dict[str, Any]] = []

    def put_metric_data(self, **call: Any) -> None:
        self.data += call["MetricData"]


def test_metrics_of_the_data_plane_carry_the_stacks_time() -> None:
    async def run() -> list[dict[str, Any]]:
        cloudwatch = Published()
        meter = Meter(cloudwatch, options=Options(), clock=ManualClock(MOMENT))
        target = Target(endpoint="e", variant="a", config="c", workers=cast("Any", None), capture=None)
        meter.count(target, Invocation(status=200, model_s=0.01, total_s=0.02, concurrent=1))
        await meter.flush()
        return cloudwatch.data

    moments = {datum["Timestamp"] for datum in asyncio.run(run())}
    assert moments == {datetime.fromtimestamp(MOMENT, UTC)}


class Alarms:
    """A store with one alarm that is never to be moved; it notes when it is looked at."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.looks: list[float] = []

    def enter(self) -> None:
        pass

    def alarms(self) -> list[dict[str, Any]]:
        self.looks.append(self._clock.now() - MOMENT)
        return []

    samples = set_state = None


def test_alarms_are_looked_at_on_the_stacks_time() -> None:
    async def run() -> list[float]:
        clock = ManualClock(MOMENT)
        store = Alarms(clock)
        watch = asyncio.create_task(AlarmWatch(cast("Any", store), clock=clock, interval_s=15.0).run())
        await clock.advance(60.0)
        watch.cancel()
        return store.looks

    assert asyncio.run(run()) == [0, 15, 30, 45, 60]
