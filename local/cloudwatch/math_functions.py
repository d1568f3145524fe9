"""The functions of metric math, each as the CloudWatch user guide's table of functions describes it.

Where the guide is silent: STDDEV is that of a population, a scalar of no datapoints does not exist, and whatever is
computed from it is missing.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from local.cloudwatch.math_syntax import Word
from local.cloudwatch.math_values import Arrays, MathError, Series, Value, joined, kind

Argument = Value | Word


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function is called with; `times` and `period_s` are those of the whole request."""

    function: str
    values: tuple[Argument, ...]
    times: tuple[float, ...]
    period_s: float

    def refused(self, allowed: str) -> MathError:
        """Give the error of wrong arguments."""
        got = ", ".join(kind(value) for value in self.values) or "none"
        return MathError(f"Function '{self.function}': got ({got}); allowed: ({allowed})")

    def one(self, allowed: str = "TS) or (TS[]") -> Argument:
        """Give the only argument."""
        if len(self.values) != 1:
            raise self.refused(allowed)
        return self.values[0]

    def constant(self, value: float) -> Series:
        """Give a series that has this value at every time of the request."""
        return Series(self.period_s, self.times, dict.fromkeys(self.times, value))


Function = Callable[[Arguments], Value]


def _each(change: Callable[[Series], Series]) -> Function:
    """Give a function of one series that takes an array item by item."""

    def apply(call: Arguments) -> Value:
        value = call.one()
        if isinstance(value, Series):
            return change(value)
        if isinstance(value, tuple):
            return tuple(change(item) for item in value)
        raise call.refused("TS) or (TS[]")

    return apply


def _mapped(change: Callable[[float], float]) -> Function:
    def safely(value: float) -> float:
        try:
            return float(change(value))
        except ValueError:
            return math.nan  # the logarithm of what has none

    return _each(lambda series: series.map(safely))


def _successive(change: Callable[[float, float], float]) -> Function:
    """Give a function of the distances in time and value between each datapoint and the one before it."""

    def apply(series: Series) -> Series:
        points = series.ordered()
        pairs = pairwise(points)
        return series.of({time: change(time - before, value - old) for (before, old), (time, value) in pairs})

    return _each(apply)


def _running_sum(series: Series) -> Series:
    total, sums = 0.0, {}
    for time, value in series.ordered():
        total += value
        sums[time] = total
    return series.of(sums)


def _aggregate(
    reduce: Callable[[Sequence[float]], float], *, empty: float = math.nan, absent: float | None = None
) -> Function:
    """Give a function that makes a scalar of one series and a series of an array, where `absent` fills gaps."""

    def apply(call: Arguments) -> Value:
        value = call.one()
        if isinstance(value, Series):
            return float(reduce(list(value.values.values()))) if value.values else empty
        if not isinstance(value, tuple):
            raise call.refused("TS) or (TS[]")
        if not value:
            return Series(call.period_s, call.times, {})
        return joined(*value).of({time: float(reduce(_at(value, time, absent))) for time in _known(value)})

    return apply


def _known(array: Arrays) -> set[float]:
    return {time for series in array for time in series.values}


def _at(array: Arrays, time: float, absent: float | None) -> list[float]:
    found = [series.values.get(time, absent) for series in array]
    return [value for value in found if value is not None]


def _fill(call: Arguments) -> Value:
    if len(call.values) != 2:  # noqa: PLR2004 - a series and what fills it
        raise call.refused("TS or TS[], S, TS, REPEAT or LINEAR")
    value, filler = call.values
    if isinstance(value, Series):
        return _filled(call, value, filler)
    if isinstance(value, tuple):
        return tuple(_filled(call, item, filler) for item in value)
    raise call.refused("TS or TS[], S, TS, REPEAT or LINEAR")


def _filled(call: Arguments, series: Series, filler: Argument) -> Series:
    if isinstance(filler, float):
        return series.of(dict.fromkeys(series.times, filler) | dict(series.values))
    if isinstance(filler, Series):
        return series.of(dict(filler.values) | dict(series.values))
    if filler == Word("REPEAT"):
        return series.of(_repeated(series))
    if filler == Word("LINEAR"):
        return series.of(_interpolated(series))
    raise call.refused("TS or TS[], S, TS, REPEAT or LINEAR")


def _repeated(series: Series) -> dict[float, float]:
    last, filled = math.nan, {}
    for time in series.times:
        last = series.values.get(time, last)
        filled[time] = last
    return filled


def _interpolated(series: Series) -> dict[float, float]:
    """Give straight lines between datapoints; before the first and after the last there are none."""
    points, filled = series.ordered(), dict(series.values)
    for (start, low), (end, high) in pairwise(points):
        between = (time for time in series.times if start < time < end)
        filled |= {time: low + (high - low) * (time - start) / (end - start) for time in between}
    return filled


def _if(call: Arguments) -> Value:
    allowed = "S or TS, S or TS[, S or TS]"
    if len(call.values) not in {2, 3} or not all(isinstance(value, float | Series) for value in call.values):
        raise call.refused(allowed)
    series = [value for value in call.values if isinstance(value, Series)]
    if not series:
        raise call.refused("at least one TS, " + allowed)
    condition, wanted, *others = call.values
    times = joined(*series).times
    # a value that the chosen series lacks is 0 if the condition holds, else dropped (guide, *Using IF expressions*)
    holds = {time: _condition(condition, time) for time in times}
    then = {time: _value(wanted, time, absent=0.0 if isinstance(condition, Series) else math.nan) for time in times}
    other = {time: _value(others[0], time, absent=math.nan) if others else math.nan for time in times}
    chosen = {time: then[time] if held else other[time] for time, held in holds.items() if held is not None}
    return joined(*series).of(chosen)


def _condition(condition: Argument, time: float) -> bool | None:
    value = _value(condition, time, absent=math.nan)
    return None if math.isnan(value) else value != 0


def _value(value: Argument, time: float, *, absent: float) -> float:
    if isinstance(value, Series):
        return value.values.get(time, absent)
    return value if isinstance(value, float) else absent


def _time_series(call: Arguments) -> Value:
    value = call.one("S")
    if not isinstance(value, float):
        raise call.refused("S")
    return call.constant(value) if math.isfinite(value) else Series(call.period_s, call.times, {})


def _moments(part: Callable[[datetime], float]) -> Function:
    """Give a function of the timestamps, which has a value at each."""

    def apply(call: Arguments) -> Value:
        value = call.one("TS")
        if not isinstance(value, Series):
            raise call.refused("TS")
        return value.of({time: float(part(datetime.fromtimestamp(time, UTC))) for time in value.times})

    return apply


def _array(call: Arguments) -> Arrays:
    value = call.values[0] if call.values else None
    if not isinstance(value, tuple):
        raise call.refused("TS[]")
    return value


def _item(place: int) -> Function:
    def apply(call: Arguments) -> Value:
        call.one("TS[]")
        array = _array(call)
        return array[place] if array else Series(call.period_s, call.times, {})

    return apply


def _places(values: Sequence[Argument]) -> list[int]:
    """Give the numbers among some arguments that may count series."""
    return [int(value) for value in values if isinstance(value, float) and math.isfinite(value) and value >= 0]


def _slice(call: Arguments) -> Value:
    array, bounds = _array(call), call.values[1:]
    numbers = _places(bounds)
    if len(numbers) != len(bounds) or len(bounds) not in {1, 2}:
        raise call.refused("TS[], S[, S]")
    return array[numbers[0] : numbers[1] if len(numbers) == 2 else None]  # noqa: PLR2004 - start and end


def _sort(call: Arguments) -> Value:
    allowed = "TS[], AVG, MIN, MAX or SUM, ASC or DESC[, S]"
    array, words, limit = _array(call), call.values[1:3], call.values[3:]
    names, most = [word.name for word in words if isinstance(word, Word)], _places(limit)
    if len(names) != 2 or names[0] not in _SORTED_BY or names[1] not in {"ASC", "DESC"}:  # noqa: PLR2004 - by, order
        raise call.refused(allowed)
    if len(limit) > 1 or len(most) != len(limit):
        raise call.refused(allowed)
    by = _SORTED_BY[names[0]]
    full = [series for series in array if series.values]
    full.sort(key=lambda series: by(list(series.values.values())), reverse=names[1] == "DESC")
    empty = [series for series in array if not series.values]
    return tuple([*full, *empty][: most[0] if most else None])


def _metric_count(call: Arguments) -> Value:
    call.one("TS[]")
    return float(len(_array(call)))


def _remove_empty(call: Arguments) -> Value:
    call.one("TS[]")
    return tuple(series for series in _array(call) if series.values)


_SORTED_BY: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "AVG": statistics.fmean,
    "MIN": min,
    "MAX": max,
    "SUM": math.fsum,
}
FUNCTIONS: Final[Mapping[str, Function]] = {
    "ABS": _mapped(abs),
    "AVG": _aggregate(statistics.fmean, absent=0.0),
    "CEIL": _mapped(math.ceil),
    "DATAPOINT_COUNT": _aggregate(len, empty=0.0),
    "DATE": _moments(lambda moment: moment.day),
    "DAY": _moments(lambda moment: moment.isoweekday()),
    "DIFF": _successive(lambda _, values: values),
    "DIFF_TIME": _successive(lambda seconds, _: seconds),
    "EPOCH": _moments(lambda moment: moment.timestamp()),
    "FILL": _fill,
    "FIRST": _item(0),
    "FLOOR": _mapped(math.floor),
    "HOUR": _moments(lambda moment: moment.hour),
    "IF": _if,
    "LAST": _item(-1),
    "LOG": _mapped(math.log),
    "LOG10": _mapped(math.log10),
    "MAX": _aggregate(max),
    "METRIC_COUNT": _metric_count,
    "MIN": _aggregate(min),
    "MINUTE": _moments(lambda moment: moment.minute),
    "MONTH": _moments(lambda moment: moment.month),
    "RATE": _successive(lambda seconds, values: values / seconds),
    "REMOVE_EMPTY": _remove_empty,
    "RUNNING_SUM": _each(_running_sum),
    "SLICE": _slice,
    "SORT": _sort,
    "STDDEV": _aggregate(statistics.pstdev),
    "SUM": _aggregate(math.fsum),
    "TIME_SERIES": _time_series,
    "YEAR": _moments(lambda moment: moment.year),
}
REFUSED: Final = frozenset(
    {"ANOMALY_DETECTION_BAND", "DB_PERF_INSIGHTS", "INSIGHT_RULE_METRIC", "LAMBDA", "SEARCH", "SERVICE_QUOTA"}
)
"""Functions of CloudWatch that need more than the metrics of the request: not in the local stack."""
