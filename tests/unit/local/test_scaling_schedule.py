"""When scheduled actions are due: examples of AWS's guides, and every minute of random spans asked one by one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.scaling_schedule import due, parse_schedule
from serving.errors import LocalStackError

BERLIN = ZoneInfo("Europe/Berlin")


def action(schedule: str, **more: Any) -> dict[str, Any]:
    return {"Schedule": schedule, "CreationTime": 0.0, **more}


def moments(schedule: str, begin: datetime, end: datetime, **more: Any) -> list[datetime]:
    zone = ZoneInfo(more.get("Timezone", "UTC"))
    found = due(action(schedule, **more), after_s=begin.timestamp(), until_s=end.timestamp())
    return [datetime.fromtimestamp(moment, zone) for moment in found]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]  # year, month, day, …


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("cron(0 10 * * ? *)", utc(2026, 12, 3, 10)),
        ("cron(0 18 ? * MON-FRI *)", utc(2026, 12, 3, 18)),
        ("cron(0 8 1 * ? *)", utc(2027, 1, 1, 8)),
        ("cron(0/10 * ? * MON-FRI *)", utc(2026, 12, 3, 0, 10)),
        ("cron(0 9 ? * 2#1 *)", utc(2026, 12, 7, 9)),
        ("cron(0 9 ? * 1 *)", utc(2026, 12, 6, 9)),
        ("cron(0 9 ? * 7 *)", utc(2026, 12, 5, 9)),
        ("cron(0 9 ? * L *)", utc(2026, 12, 5, 9)),
        ("cron(0 9 ? * 6L *)", utc(2026, 12, 25, 9)),
        ("cron(0 9 L * ? *)", utc(2026, 12, 31, 9)),
        ("cron(0 9 29 2 ? 2028)", utc(2028, 2, 29, 9)),
        ("cron(0 9 1 1 ? 2031-2033)", utc(2031, 1, 1, 9)),
        ("cron(0 9 ? * 2-6/2 *)", utc(2026, 12, 4, 9)),
        ("at(2026-12-24T18:00:00)", utc(2026, 12, 24, 18)),
    ],
)
def test_a_schedule_is_next_due_as_the_guide_says(schedule: str, expected: datetime) -> None:
    assert moments(schedule, utc(2026, 12, 3), expected) == [expected]


def test_years_that_are_over_are_never_due() -> None:
    assert moments("cron(0 9 1 1 ? 2020)", utc(2026, 12, 3), utc(2032, 1, 1)) == []


def test_a_time_zone_keeps_its_hour_when_summer_begins_and_ends() -> None:
    for begin in (datetime(2026, 3, 27, tzinfo=BERLIN), datetime(2026, 10, 23, tzinfo=BERLIN)):
        found = moments("cron(0 9 * * ? *)", begin, begin + timedelta(days=5), Timezone="Europe/Berlin")
        assert [moment.hour for moment in found] == [9] * 5
        assert len({moment.date() for moment in found}) == 5
    [noon] = moments("at(2026-07-01T12:00:00)", utc(2026, 1, 1), utc(2027, 1, 1), Timezone="Europe/Berlin")
    assert noon.astimezone(UTC).hour == 10


def test_a_rate_counts_from_its_start_or_else_from_when_it_was_made() -> None:
    made, start = 100.0, 1000.0
    plain = {"Schedule": "rate(5 minutes)", "CreationTime": made}
    assert due(plain, after_s=made, until_s=made + 899) == [made + 300, made + 600]
    assert due({**plain, "StartTime": start}, after_s=made, until_s=start + 300) == [start + 300]


def test_nothing_is_due_before_the_start_or_after_the_end() -> None:
    bounds = {"StartTime": utc(2026, 12, 5).timestamp(), "EndTime": utc(2026, 12, 7, 9).timestamp()}
    found = moments("cron(0 9 * * ? *)", utc(2026, 12, 1), utc(2026, 12, 30), **bounds)
    assert found == [utc(2026, 12, 5, 9), utc(2026, 12, 6, 9), utc(2026, 12, 7, 9)]


@given(
    schedule=st.sampled_from(
        ["cron(0/7 * * * ? *)", "cron(5,35 8-17 ? * MON-FRI *)", "rate(11 minutes)", "at(2026-12-05T03:04:00)"]
    ),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata"]),
    begin=st.integers(0, 5 * 1440),
    steps=st.lists(st.integers(0, 700), max_size=8),
)
def test_spans_that_follow_each_other_miss_nothing_and_repeat_nothing(
    schedule: str, zone: str, begin: int, steps: list[int]
) -> None:
    held = action(schedule, Timezone=zone, CreationTime=utc(2026, 12, 2).timestamp())
    edges = [utc(2026, 12, 3).timestamp() + begin * 60.0]
    for step in steps:
        edges.append(edges[-1] + step * 60.0)
    pieces = [due(held, after_s=low, until_s=high) for low, high in pairwise(edges)]
    assert [moment for piece in pieces for moment in piece] == due(held, after_s=edges[0], until_s=edges[-1])


def weekdays(moment: datetime) -> bool:
    return moment.minute in {5, 35} and 8 <= moment.hour <= 17 and moment.isoweekday() <= 5


def sundays_and_saturdays(moment: datetime) -> bool:
    return moment.minute == 30 and moment.hour == 0 and moment.isoweekday() >= 6


def last_of_month(moment: datetime) -> bool:
    return moment.minute % 20 == 0 and moment.hour == 23 and (moment + timedelta(days=1)).day == 1


@given(
    case=st.sampled_from(
        [
            ("cron(5,35 8-17 ? * MON-FRI *)", weekdays),
            ("cron(30 0 ? * 1,7 *)", sundays_and_saturdays),
            ("cron(0/20 23 L * ? *)", last_of_month),
        ]
    ),
    day=st.integers(0, 400),
)
def test_every_minute_that_the_words_name_is_due_and_no_other(
    case: tuple[str, Callable[[datetime], bool]], day: int
) -> None:
    schedule, named = case
    begin = utc(2026, 1, 1) + timedelta(days=day)
    minutes = [begin + timedelta(minutes=number) for number in range(1, 3 * 1440 + 1)]
    assert moments(schedule, begin, minutes[-1]) == [minute for minute in minutes if named(minute)]


@pytest.mark.parametrize(
    "schedule",
    [
        "cron(0 9 * * * *)",
        "cron(0 9 ? * ? *)",
        "cron(0 9 * * ?)",
        "cron(60 9 * * ? *)",
        "cron(0 9 3W * ? *)",
        "cron(0 9 * * ? 1492)",
        "cron(0 9 * * ? x)",
        "rate(0 minutes)",
        "rate(5 fortnights)",
        "rate(5)",
        "at(2026-13-01T00:00:00)",
        "at()",
        "10 minutes",
    ],
)
def test_what_is_no_schedule_is_said(schedule: str) -> None:
    with pytest.raises(LocalStackError, match="Schedule: got"):
        parse_schedule(schedule)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", ""])
def test_a_time_zone_must_exist(zone: str) -> None:
    with pytest.raises(LocalStackError, match="Timezone: got"):
        parse_schedule("rate(1 day)", zone)
