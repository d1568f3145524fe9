"""When scheduled actions of Application Auto Scaling are due; pure.

Sources: API reference, PutScheduledAction (`at(…)`, `rate(…)`, `cron(…)`, Timezone, StartTime, EndTime); Application
Auto Scaling guide, *Scheduled scaling*; EventBridge user guide, *Cron expressions*. Days and times of cron are those of
`cronsim`, which also knows what a change to summer time does to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from local.aws_json import Json
from serving.errors import LocalStackError

_FORM = re.compile(r"(at|rate|cron)\((.+)\)", re.ASCII)
_UNITS_S = {"minute": 60.0, "hour": 3600.0, "day": 86_400.0}
_CRON_FIELDS = 6
_FIRST_YEAR, _LAST_YEAR = 1970, 2199
_FORMS = "at(yyyy-mm-ddThh:mm:ss), rate(value unit), cron(minute hour day month weekday year)"


@dataclass(frozen=True, slots=True)
class At:
    """Once."""

    moment_s: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Again and again, counted from when the action was made or from its StartTime."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cron:
    """By the calendar of a time zone: five fields as cron writes them, and the years."""

    fields: str
    years: tuple[int, ...]
    zone: ZoneInfo


Schedule = At | Rate | Cron


def parse_schedule(expression: str, timezone: str = "UTC") -> Schedule:
    """Give the schedule of an expression.

    Raises:
        LocalStackError: it is none, or the time zone does not exist.

    """
    try:
        zone = ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise LocalStackError(f"Timezone: got {timezone}; allowed: a name of the IANA database") from error
    found = _FORM.fullmatch(expression.strip())
    if found is None:
        raise LocalStackError(f"Schedule: got {expression}; allowed: {_FORMS}")
    kind, text = found.groups()
    try:
        if kind == "at":
            return At(datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=zone).timestamp())
        return _rate(text) if kind == "rate" else _cron(text, zone)
    except (ValueError, CronSimError) as error:
        raise LocalStackError(f"Schedule: got {expression} ({error}); allowed: {_FORMS}") from error


def due(action: Json, *, after_s: float, until_s: float) -> list[float]:
    """Give the moments after `after_s`, up to and with `until_s`, at which a scheduled action is to run.

    Args:
        action: as DescribeScheduledActions answers it; none of its moments is before StartTime or after EndTime.
        after_s: seconds since the epoch; excluded.
        until_s: included.

    """
    schedule = parse_schedule(action["Schedule"], action.get("Timezone", "UTC"))
    start_s, end_s = action.get("StartTime"), action.get("EndTime")
    last_s = until_s if end_s is None else min(until_s, float(end_s))
    anchor_s = float(action["CreationTime"] if start_s is None else start_s)
    found = takewhile(lambda moment: moment <= last_s, _moments(schedule, after_s=after_s, anchor_s=anchor_s))
    return [moment for moment in found if moment > after_s and (start_s is None or moment >= float(start_s))]


def _moments(schedule: Schedule, *, after_s: float, anchor_s: float) -> Iterator[float]:
    """Give moments in order, from about `after_s` on."""
    if isinstance(schedule, At):
        yield schedule.moment_s
    elif isinstance(schedule, Rate):
        passed = max(0, int((after_s - anchor_s) // schedule.seconds))
        while True:
            passed += 1
            yield anchor_s + passed * schedule.seconds
    else:
        yield from _cron_moments(schedule, after_s)


def _cron_moments(cron: Cron, after_s: float) -> Iterator[float]:
    after = datetime.fromtimestamp(after_s, cron.zone)
    for year in cron.years:
        if year < after.year:
            continue
        begin = datetime(year, 1, 1, tzinfo=cron.zone) - timedelta(seconds=1)
        for moment in CronSim(cron.fields, max(after, begin)):
            if moment.year != year:
                break
            yield moment.astimezone(UTC).timestamp()


def _rate(text: str) -> Rate:
    number, _, unit = text.partition(" ")
    if not number.isdecimal() or int(number) < 1 or unit.removesuffix("s") not in _UNITS_S:
        raise ValueError("a rate is a whole number and minutes, hours or days")
    return Rate(int(number) * _UNITS_S[unit.removesuffix("s")])


def _cron(text: str, zone: ZoneInfo) -> Cron:
    fields = text.split()
    if len(fields) != _CRON_FIELDS:
        raise ValueError(f"{len(fields)} fields")
    minute, hour, day, month, weekday, year = fields
    if (day == "?") == (weekday == "?"):
        raise ValueError("one of day and weekday is ?")
    if "W" in day.upper().replace("LW", ""):
        raise ValueError("the weekday nearest to a day is not in the local stack")
    cron = " ".join([minute, hour, day.replace("?", "*"), month, _weekday(weekday)])
    CronSim(cron, datetime(_FIRST_YEAR, 1, 1, tzinfo=UTC))
    return Cron(cron, _years(year), zone)


def _weekday(text: str) -> str:
    """Give the weekday of cron, where Sunday is 0, of that of AWS, where it is 1."""
    if text.upper() == "L":
        return "6"  # alone it is the last day of the week: Saturday
    # not the number behind # (which one in the month) or / (a step)
    return re.sub(r"(?<![#/\d])[1-7](?!\d)", lambda found: str(int(found[0]) - 1), text.replace("?", "*"))


def _years(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, dash, last = span.partition("-")
        low = _FIRST_YEAR if first == "*" else int(first)
        open_ended = first == "*" or (step and not dash)
        high = _LAST_YEAR if open_ended else int(last or first)
        if not _FIRST_YEAR <= low <= high <= _LAST_YEAR:
            raise ValueError(f"years are {_FIRST_YEAR} to {_LAST_YEAR}")
        found.update(range(low, high + 1, int(step or 1)))
    return tuple(sorted(found))
