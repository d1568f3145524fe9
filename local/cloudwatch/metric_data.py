"""GetMetricData: metrics and expressions over a range of time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local.cloudwatch.alarm_requests import RequestError
from local.cloudwatch.math_values import Series
from local.cloudwatch.queries import Metric, Queries
from local.cloudwatch.samples import Reader, by_period, series

_MOST_QUERIES = 500
_KEPT_S = 455 * 86_400.0
"""How long CloudWatch keeps metrics at most (guide, *Metrics retention*): nothing is older."""


@dataclass(frozen=True, slots=True)
class Result:
    """One time series of the answer; timestamps in seconds, the newest first unless asked otherwise."""

    id: str
    label: str
    timestamps: Sequence[float]
    values: Sequence[float]


def metric_data(
    queries: Sequence[Mapping[str, Any]], read: Reader, *, start_s: float, end_s: float, ascending: bool = False
) -> list[Result]:
    """Give the result of each query that returns data; an expression may have several.

    Args:
        queries: MetricDataQueries.
        read: gives the samples of a metric.
        start_s: datapoints begin at the period in which this moment lies.
        end_s: and end before this one.
        ascending: ScanBy TimestampAscending; the default of AWS is the newest first.

    Raises:
        RequestError: the range is empty, or there are no queries or too many.
        MathError: a query cannot be evaluated.

    """
    if not start_s < end_s:
        raise RequestError("The parameter StartTime must be less than the parameter EndTime.")
    if not 0 < len(queries) <= _MOST_QUERIES:
        raise RequestError(f"MetricDataQueries: got {len(queries)}; allowed: 1 to {_MOST_QUERIES}.")
    first_s = max(start_s, end_s - _KEPT_S)

    def times_of(period_s: float) -> tuple[float, ...]:
        first = math.floor(first_s / period_s)
        return tuple(index * period_s for index in range(first, math.ceil(end_s / period_s)))

    def series_of(metric: Metric) -> Series:
        times = times_of(metric.period_s)
        known = (sample for sample in read(metric.key, times[0]) if sample.timestamp_s < end_s)
        return series(by_period(known, times, metric.period_s), times, metric.period_s, metric.statistic)

    found = Queries.of(queries)
    values = found.evaluate(series_of, times_of)
    by_id = {query.id: query for query in found.ordered}
    returning = [by_id[name] for name in found.asked if by_id[name].returns]
    return [
        _result(query.id, query.label, one, ascending=ascending)
        for query in returning
        for one in _several(values[query.id])
    ]


def _several(value: object) -> Iterator[Series]:
    if isinstance(value, Series):
        yield value
    elif isinstance(value, tuple):
        yield from value


def _result(name: str, label: str, one: Series, *, ascending: bool) -> Result:
    points = one.ordered() if ascending else one.ordered()[::-1]
    return Result(name, label, [time for time, _ in points], [value for _, value in points])
