"""The time of a local stack: one file for all processes; smooth for services, with its jumps for hosts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.faults import Faults, make
from serving.aws import clock
from serving.aws.clock import StackTime
from serving.errors import LocalStackError

BEGAN = 1_770_000_000.0
STANDING = b'{"pace": 0, "wall_s": 1, "stepped_s": 1, "smooth_s": 1, "offset_s": 0}'
LOOPBACK = {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}

jumps = st.lists(
    st.tuples(st.floats(0, 1_000), st.one_of(st.floats(-100_000, 100_000), st.sampled_from([-1.0, 0.0, 1.0]))),
    max_size=8,
)


def moved(pace: float, events: list[tuple[float, float]]) -> list[tuple[float, StackTime]]:
    """Give each time of a stack that is jumped after each wait, with the machine's moment it holds from."""
    wall, time = BEGAN, StackTime.started(pace=pace, wall_s=BEGAN)
    times = [(wall, time)]
    for wait, seconds in events:
        wall += wait
        time = time.moved_to(time.offset_s + seconds, wall_s=wall)
        times.append((wall, time))
    return times


@given(pace=st.floats(1, 240), events=jumps, after=st.floats(0, 1_000))
def test_smooth_time_never_goes_back_and_never_stands_still(
    pace: float, events: list[tuple[float, float]], after: float
) -> None:
    times = moved(pace, events)
    ends = [*(wall for wall, _ in times[1:]), times[-1][0] + after]
    last = -float("inf")
    for (wall, time), end in zip(times, ends, strict=True):
        assert time.smooth(wall) >= last - 1e-5
        assert time.smooth(end) - time.smooth(wall) >= (end - wall) * pace / 2 - 1e-5, "half the pace at least"
        last = time.smooth(end)


@given(pace=st.floats(1, 240), back=st.floats(1, 100_000))
def test_smooth_time_has_caught_up_when_twice_the_jump_has_passed(pace: float, back: float) -> None:
    time = StackTime.started(pace=pace, wall_s=BEGAN).moved_to(-back, wall_s=BEGAN)
    caught_up = BEGAN + 2 * back / pace
    assert time.smooth(caught_up) == pytest.approx(time.stepped(caught_up), abs=1e-3)
    assert time.smooth(caught_up + 10) == pytest.approx(time.stepped(caught_up + 10), abs=1e-3)


@given(pace=st.floats(1, 240), forward=st.floats(0, 100_000))
def test_a_jump_forward_is_seen_at_once_by_all(pace: float, forward: float) -> None:
    time = StackTime.started(pace=pace, wall_s=BEGAN).moved_to(forward, wall_s=BEGAN + 1)
    assert time.smooth(BEGAN + 1) == time.stepped(BEGAN + 1) == pytest.approx(BEGAN + pace + forward, abs=1e-3)


@given(events=jumps)
def test_a_clock_that_is_set_right_again_is_right(events: list[tuple[float, float]]) -> None:
    wall, time = moved(1.0, events)[-1]
    assert time.moved_to(0.0, wall_s=wall).stepped(wall + 5) == pytest.approx(wall + 5, abs=1e-3)


def test_at_pace_60_a_minute_passes_in_a_second() -> None:
    time = StackTime.started(pace=60, wall_s=BEGAN)
    assert time.smooth(BEGAN + 1) == time.stepped(BEGAN + 1) == BEGAN + 60


def test_another_pace_goes_on_from_the_same_time() -> None:
    time = StackTime.started(pace=60, wall_s=BEGAN).at_pace(1, wall_s=BEGAN + 10)
    assert (time.stepped(BEGAN + 10), time.stepped(BEGAN + 11)) == (BEGAN + 600, BEGAN + 601)


def test_a_process_that_is_told_the_file_has_the_stacks_time_and_its_jumps(tmp_path: Path) -> None:
    path = tmp_path / "services" / "clock.json"
    begun = datetime.now(UTC)
    at_start = StackTime.started(pace=1, wall_s=begun.timestamp())
    clock.write(path, at_start.moved_to(-86_400, wall_s=begun.timestamp()))
    told = clock.now({**LOOPBACK, clock.VARIABLE: str(path)})
    assert timedelta(0) <= told - (begun - timedelta(days=1)) < timedelta(minutes=5)


def test_without_the_variable_it_is_the_machines_time() -> None:
    assert abs(clock.now({}) - datetime.now(UTC)) < timedelta(minutes=5)


@pytest.mark.parametrize("url", ["", "https://sagemaker.us-east-1.amazonaws.com", "http://127.0.0.1.example.com"])
def test_no_stacks_time_is_taken_beside_the_real_aws(tmp_path: Path, url: str) -> None:
    path = tmp_path / "clock.json"
    clock.write(path, StackTime.started(pace=60, wall_s=BEGAN))
    with pytest.raises(LocalStackError, match="allowed beside a local stack only"):
        clock.now({"AWS_ENDPOINT_URL": url, clock.VARIABLE: str(path)})


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"pace": "fast"}', STANDING], ids=["empty", "list", "words", "standing"]
)
def test_a_file_that_is_no_time_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "clock.json"
    path.write_bytes(content)
    with pytest.raises(LocalStackError, match=r"clock\.json.*streamhub local up"):
        clock.read(path)
    with pytest.raises(LocalStackError, match="allowed the time of a local stack"):
        clock.read(tmp_path / "none.json")


@pytest.mark.parametrize("seconds", [0.0, 31 * 86_400 + 1.0, -31 * 86_400 - 1.0, float("nan"), float("inf")])
def test_a_jump_of_no_time_or_of_more_than_a_month_is_refused(seconds: float) -> None:
    with pytest.raises(LocalStackError, match=r"seconds: got .*; allowed: up to 2678400 forward or back, but 0"):
        make("clock-jump", seconds=seconds)


def test_jumps_that_are_asked_for_together_add_up(tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    assert faults.clock_offset_s() == 0
    for name, seconds in (("a", 60.0), ("b", -3600.0)):
        faults.add(make("clock-jump", name=name, seconds=seconds))
    faults.add(make("capacity"))
    assert faults.clock_offset_s() == -3540
    faults.remove("b")
    assert faults.clock_offset_s() == 60
