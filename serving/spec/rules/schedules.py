"""Rules on floors for known peaks: expressions that Application Auto Scaling takes, zones that exist, room to rise."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from datetime import datetime
from functools import cache

from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.scaling import scalings
from serving.spec.scaling import ScheduleSpec

_API = "Application Auto Scaling API_PutScheduledAction"
_FORMS = "cron(minute hour day month weekday year) with ? for one of the days, or at(yyyy-mm-ddThh:mm:ss)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}", re.ASCII)
_AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)", re.ASCII)
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
# minutes, hours, day of month, month, day of week, year: range and names (EventBridge user guide, *cron expressions*)
_CRON_FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (1, 7, _DAYS),
    (1970, 2199, ()),
)
_DAY_OF_MONTH, _DAY_OF_WEEK = 2, 4
_MOST_DIGITS = 4  # of a year


def schedule_names_are_distinct(model: ModelSpec) -> Iterator[Finding]:
    """A name stands for one scheduled action of the fleet."""
    for key, schedules, _ in _schedules(model):
        names = [schedule.name for schedule in schedules]
        for index, name in enumerate(names):
            if not _NAME.fullmatch(name) or names.index(name) != index:
                allowed = "letters, digits and -, each name once"
                yield f"{key}[{index}].name", repr(name), allowed, "name another", _API


def expressions_are_legal(model: ModelSpec) -> Iterator[Finding]:
    """A peak starts and ends by `cron(…)` of six fields or `at(…)`; both of one kind, `at` in order."""
    for key, schedules, _ in _schedules(model):
        for index, schedule in enumerate(schedules):
            for name in ("start", "end"):
                text = getattr(schedule, name)
                if not (is_cron(text) or _moment(text) is not None):
                    allowed = _FORMS
                    yield f"{key}[{index}].{name}", repr(text), allowed, "correct it", _API
            yield from _order(f"{key}[{index}].end", schedule)


def zones_exist(model: ModelSpec) -> Iterator[Finding]:
    """A time zone is a name of the IANA database."""
    known = _zones()
    for key, schedules, _ in _schedules(model):
        for index, schedule in enumerate(schedules):
            if schedule.timezone not in known:
                allowed = "an IANA name such as Europe/Berlin"
                yield f"{key}[{index}].timezone", repr(schedule.timezone), allowed, "correct it", _API


def floors_fit_the_fleet(model: ModelSpec) -> Iterator[Finding]:
    """A floor is above the usual minimum, or it changes nothing, and at most the maximum."""
    for key, schedules, (lowest, highest) in _schedules(model):
        for index, schedule in enumerate(schedules):
            if not lowest < schedule.min_count <= highest:
                allowed = f"{lowest + 1} to {highest}, above the usual minimum"
                yield f"{key}[{index}].min_count", str(schedule.min_count), allowed, "correct it", _API


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def is_cron(text: str) -> bool:
    """Tell whether a text is a cron expression of AWS: six fields, one of the two days a question mark."""
    if not (text.startswith("cron(") and text.endswith(")")):
        return False
    parts = text.removeprefix("cron(").removesuffix(")").split(" ")
    if len(parts) != len(_CRON_FIELDS) or (parts[_DAY_OF_MONTH] == "?") == (parts[_DAY_OF_WEEK] == "?"):
        return False
    return all(_is_field(part, index) for index, part in enumerate(parts))


def _is_field(text: str, index: int) -> bool:
    if text == "?":
        return index in {_DAY_OF_MONTH, _DAY_OF_WEEK}
    if index == _DAY_OF_MONTH and re.fullmatch(r"L|LW|(0?[1-9]|[12]\d|3[01])W", text):
        return True
    if index == _DAY_OF_WEEK and re.fullmatch(r"L|[1-7]L|[1-7]#[1-5]", text):
        return True
    return all(_is_item(item, index) for item in text.split(","))


def _is_item(text: str, index: int) -> bool:
    """One item of a list: `*`, a value, a range, each with an optional step."""
    lowest, highest, names = _CRON_FIELDS[index]
    span, slash, step = text.partition("/")
    if slash and not (_is_number(step) and 0 < int(step) <= highest):
        return False
    if span == "*":
        return True
    first, dash, last = span.partition("-")
    values = [_value(part, lowest, names) for part in ((first, last) if dash else (first,))]
    return all(value is not None and lowest <= value <= highest for value in values)


def _value(text: str, lowest: int, names: tuple[str, ...]) -> int | None:
    if text.upper() in names:
        return names.index(text.upper()) + lowest
    return int(text) if _is_number(text) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _moment(text: str) -> datetime | None:
    found = _AT.fullmatch(text)
    try:
        return datetime.fromisoformat(found.group(1)) if found else None
    except ValueError:
        return None


def _order(key: str, schedule: ScheduleSpec) -> Iterator[Finding]:
    start, end = _moment(schedule.start), _moment(schedule.end)
    if (start is None) != (end is None) and (start is not None or is_cron(schedule.start)):
        yield key, repr(schedule.end), f"the kind of start = {schedule.start}", "make both cron, or both at", _API
    elif start is not None and end is not None and end <= start:
        yield key, repr(schedule.end), f"later than start = {schedule.start}", "swap them", _API


def _schedules(model: ModelSpec) -> Iterator[tuple[str, tuple[ScheduleSpec, ...], tuple[int, int]]]:
    for key, scaling, _, lowest, highest in scalings(model):
        yield f"{key}.schedules", scaling.schedules, (lowest, highest)


RULES: tuple[Rule, ...] = (
    schedule_names_are_distinct,
    expressions_are_legal,
    zones_exist,
    floors_fit_the_fleet,
)
