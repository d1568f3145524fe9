"""GetMetricData and GetMetricStatistics: metrics and expressions over a range of time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from local.cloudwatch.alarm_requests import RequestError
from local.cloudwatch.math_values import Series
from local.cloudwatch.queries import Metric, Queries
from local.cloudwatch.samples import Reader, Sample, Statistic, by_period, checked_period, series
from serving.errors import LocalStackError

_MOST_QUERIES = 500
_MOST_DATAPOINTS = 1440
"""Of one GetMetricStatistics (its API reference)."""
_KEPT_S = 455 * 86_400.0
"""How long CloudWatch keeps metrics at most (guide, *Metrics retention*): nothing is older."""


class TooManyDatapointsError(RequestError):
    """GetMetricStatistics of more than CloudWatch gives at once."""

    code: ClassVar = "InvalidParameterCombination"


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
    _refuse_no_range(start_s, end_s)
    if not 0 < len(queries) <= _MOST_QUERIES:
        raise RequestError(f"MetricDataQueries: got {len(queries)}; allowed: 1 to {_MOST_QUERIES}.")

    def times_of(period_s: float) -> tuple[float, ...]:
        return _times(start_s, end_s, period_s)

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


def metric_statistics(
    request: Mapping[str, Any], read: Reader, *, start_s: float, end_s: float
) -> list[dict[str, Any]]:
    """Give the Datapoints of GetMetricStatistics, oldest first, timestamps in seconds and without their unit.

    Args:
        request: its parameters, as boto3 takes them.
        read: gives the samples of a metric.
        start_s: datapoints begin at the period in which this moment lies.
        end_s: and end before this one.

    Raises:
        RequestError: the range is empty or has too many periods, or no statistic is asked for, or one that is not
            computed here.

    """
    _refuse_no_range(start_s, end_s)
    basic, extended = ([str(name) for name in request.get(key, ())] for key in ("Statistics", "ExtendedStatistics"))
    if not basic and not extended:
        raise RequestError("Must specify either Statistics or ExtendedStatistics.")
    try:
        statistics = [Statistic.named(name) for name in [*basic, *extended]]
        period_s = checked_period(float(request["Period"]))
    except LocalStackError as error:
        raise RequestError(str(error)) from error
    count = math.ceil((end_s - start_s) / period_s)
    if count > _MOST_DATAPOINTS:
        raise TooManyDatapointsError(
            f"You have requested up to {count:,} datapoints, which exceeds the limit of {_MOST_DATAPOINTS:,}. You may "
            "reduce the datapoints requested by increasing Period, or decreasing the time range."
        )
    times = _times(start_s, end_s, period_s)
    known = (sample for sample in read(request, times[0]) if sample.timestamp_s < end_s)
    found = by_period(known, times, period_s)
    return [_datapoint(time, found[time], statistics) for time in times if time in found]


def _datapoint(time: float, samples: Sequence[Sample], statistics: Sequence[Statistic]) -> dict[str, Any]:
    values = {statistic: statistic.of(samples) for statistic in statistics}
    basic = {one.name: value for one, value in values.items() if one.share is None and value is not None}
    extended = {one.name: value for one, value in values.items() if one.share is not None and value is not None}
    return {"Timestamp": time, **basic, **({"ExtendedStatistics": extended} if extended else {})}


def _refuse_no_range(start_s: float, end_s: float) -> None:
    if not start_s < end_s:
        raise RequestError("The parameter StartTime must be less than the parameter EndTime.")


def _times(start_s: float, end_s: float, period_s: float) -> tuple[float, ...]:
    first = math.floor(max(start_s, end_s - _KEPT_S) / period_s)
    return tuple(index * period_s for index in range(first, math.ceil(end_s / period_s)))


def _several(value: object) -> Iterator[Series]:
    if isinstance(value, Series):
        yield value
    elif isinstance(value, tuple):
        yield from value


def _result(name: str, label: str, one: Series, *, ascending: bool) -> Result:
    points = one.ordered() if ascending else one.ordered()[::-1]
    return Result(name, label, [time for time, _ in points], [value for _, value in points])
