"""What was published of one metric, and its statistics by period."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from local.cloudwatch.math_values import Series
from serving.errors import LocalStackError


@dataclass(frozen=True, slots=True)
class Sample:
    """What was published at one moment: one value `count` times, or a statistic set of `count` values."""

    timestamp_s: float
    count: float
    total: float
    least: float
    most: float

    @classmethod
    def of_value(cls, timestamp_s: float, value: float, count: float = 1.0) -> Sample:
        """Give the sample of one value seen `count` times."""
        return cls(timestamp_s=timestamp_s, count=count, total=value * count, least=value, most=value)


Reader = Callable[[Mapping[str, Any], float], Iterable[Sample]]
"""Gives what was published since a moment of exactly one metric: Namespace, MetricName, Dimensions, perhaps a Unit."""

_HIGH_RESOLUTION_S: Final = (1, 5, 10, 20, 30)
_MINUTE_S: Final = 60
_BASIC: Final[Mapping[str, Callable[[Sequence[Sample], float], float]]] = {
    "Average": lambda samples, count: sum(sample.total for sample in samples) / count,
    "Sum": lambda samples, _: sum(sample.total for sample in samples),
    "Minimum": lambda samples, _: min(sample.least for sample in samples),
    "Maximum": lambda samples, _: max(sample.most for sample in samples),
    "SampleCount": lambda _, count: count,
}


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic by CloudWatch's name; `share` (0 to 1) is a percentile's."""

    name: str
    share: float | None

    @classmethod
    def named(cls, name: str) -> Statistic:
        """Give the statistic of that name.

        Raises:
            LocalStackError: CloudWatch has none, or it is not computed here.

        """
        if name in _BASIC:
            return cls(name, None)
        try:
            share = float(name[1:]) / 100 if name[:1] in {"p", "P"} else math.nan
        except ValueError:
            share = math.nan
        if not 0 <= share <= 1:
            raise LocalStackError(f"statistic: got {name or 'none'}; allowed {', '.join(_BASIC)}, p0.0 to p100")
        return cls(name, share)

    def of(self, samples: Sequence[Sample]) -> float | None:
        """Give the statistic of one period, None where there is none."""
        count = sum(sample.count for sample in samples)
        if count <= 0:
            return None
        return _BASIC[self.name](samples, count) if self.share is None else _percentile(samples, self.share, count)


def checked_period(period_s: float) -> float:
    """Give a period back.

    Raises:
        LocalStackError: CloudWatch has no such (API MetricStat).

    """
    if period_s not in _HIGH_RESOLUTION_S and (period_s <= 0 or period_s % _MINUTE_S):
        raise LocalStackError(f"Period: got {period_s:g}; allowed: 1, 5, 10, 20, 30 or a multiple of 60")
    return period_s


def periods(end_s: float, period_s: float, count: int) -> tuple[float, ...]:
    """Give the starts of the last periods before `end_s`, oldest first."""
    return tuple(end_s - age * period_s for age in range(count, 0, -1))


def by_period(
    samples: Iterable[Sample], times: Sequence[float], period_s: float, *, owns_end: bool = False
) -> dict[float, list[Sample]]:
    """Give the samples of each period that has some.

    Args:
        samples: in any order; those outside all periods are left out.
        times: the starts of periods that follow each other.
        period_s: how long each is.
        owns_end: whether a sample at the moment between two periods belongs to the earlier one.

    """
    found: dict[float, list[Sample]] = {}
    for sample in samples:
        at = (sample.timestamp_s - times[0]) / period_s if times else -1.0
        index = math.ceil(at) - 1 if owns_end else math.floor(at)
        if 0 <= index < len(times):
            found.setdefault(times[index], []).append(sample)
    return found


def series(
    grouped: Mapping[float, Sequence[Sample]], times: Sequence[float], period_s: float, stat: Statistic
) -> Series:
    """Give a statistic as a time series."""
    values = {time: stat.of(samples) for time, samples in grouped.items()}
    known = {time: value for time, value in values.items() if value is not None}
    return Series(period_s, tuple(times), {}).of(known)


def _percentile(samples: Sequence[Sample], share: float, count: float) -> float | None:
    """Give the smallest value that at least this share of the samples does not exceed.

    There is none when a statistic set hides its values or a value is negative (guide, *Percentiles*).
    """
    if any(sample.least < sample.most or sample.least < 0 for sample in samples):
        return None
    seen = 0.0
    ordered = sorted(samples, key=lambda sample: sample.least)
    for sample in ordered:
        seen += sample.count
        if seen >= share * count - 1e-9:
            return sample.least
    return ordered[-1].least
