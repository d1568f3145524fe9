"""Decide the state of one CloudWatch metric alarm from samples, as CloudWatch does; pure.

One metric, or metric math over several; M out of N datapoints; missing data as in *Configuring how CloudWatch alarms
treat missing data* (CloudWatch guide). Windows slide: the last one ends at `now`, as CloudWatch's does each minute
(guide, *Alarm evaluation*). Anomaly bands are not here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from local.cloudwatch.math_values import Series
from local.cloudwatch.queries import Metric, Queries
from local.cloudwatch.samples import Reader, Statistic, by_period, periods, series
from serving.errors import LocalStackError

State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
Treatment = Literal["missing", "ignore", "breaching", "notBreaching"]

# the guide's example: three datapoints to evaluate, five looked at; how many more in general it does not say
_EXTRA_PERIODS = 2
_COMPARE: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}


@dataclass(frozen=True, slots=True)
class Datapoint:
    """One period's value; `age` 1 is the newest period; `count` of samples, None for an expression."""

    age: int
    start_s: float
    value: float
    count: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state an alarm has now, why, and the reason as DescribeAlarms' StateReasonData."""

    state: State
    reason: str
    data: str


def evaluate(alarm: Mapping[str, Any], read: Reader, now: datetime) -> Outcome:
    """Give the state of an alarm.

    Args:
        alarm: a MetricAlarm of DescribeAlarms, or the parameters of PutMetricAlarm; StateValue is its state so far.
        read: gives the samples of a metric; older ones than the evaluation range are ignored.
        now: the end of the newest period; a sample of that very moment belongs to it.

    Raises:
        LocalStackError: the alarm uses what this evaluator lacks.

    """
    rule = _Rule(alarm)
    points = rule.measured.datapoints(read, now.timestamp(), rule.periods + _EXTRA_PERIODS)
    significant = [point for point in points if rule.enough(point)]
    treatment = rule.treatment if len(significant) == len(points) else "ignore"
    used = significant[-rule.periods :]
    state = rule.judge(used, treatment)
    return Outcome(state=state, reason=rule.reason(state, used, treatment), data=rule.data(used, now))


@dataclass(frozen=True, slots=True)
class _OneMetric:
    """What an alarm on one metric looks at."""

    metric: Metric

    @property
    def period_s(self) -> float:
        return self.metric.period_s

    def datapoints(self, read: Reader, now_s: float, count: int) -> list[Datapoint]:
        """Give the datapoints that exist in the last `count` periods, oldest first."""
        times = periods(now_s, self.period_s, count)
        grouped = by_period(read(self.metric.key, times[0]), times, self.period_s, owns_end=True)
        found = series(grouped, times, self.period_s, self.metric.statistic)
        counts = {time: sum(sample.count for sample in samples) for time, samples in grouped.items()}
        return _datapoints(found, times, counts)


@dataclass(frozen=True, slots=True)
class _Expression:
    """What an alarm on metric math looks at."""

    queries: Queries

    @property
    def period_s(self) -> float:
        return self.queries.period_s

    def datapoints(self, read: Reader, now_s: float, count: int) -> list[Datapoint]:
        """Give the datapoints of the watched query that exist in the last `count` periods, oldest first."""
        span_s = self.period_s * count

        def times_of(period_s: float) -> tuple[float, ...]:
            return periods(now_s, period_s, math.ceil(span_s / period_s))

        def series_of(metric: Metric) -> Series:
            times = times_of(metric.period_s)
            grouped = by_period(read(metric.key, times[0]), times, metric.period_s, owns_end=True)
            return series(grouped, times, metric.period_s, metric.statistic)

        watched = self.queries.evaluate(series_of, times_of)[self.queries.watched.id]
        if not isinstance(watched, Series):
            raise LocalStackError(f"'{self.queries.watched.id}': got several time series; allowed: one in an alarm")
        return _datapoints(watched, times_of(self.period_s), {})


def _datapoints(found: Series, times: Sequence[float], counts: Mapping[float, float]) -> list[Datapoint]:
    return [
        Datapoint(age=len(times) - place, start_s=time, value=found.values[time], count=counts.get(time))
        for place, time in enumerate(times)
        if time in found.values
    ]


def _measured(alarm: Mapping[str, Any], statistic: Statistic | None) -> _OneMetric | _Expression:
    if statistic is None:
        return _Expression(Queries.of(alarm["Metrics"]))
    return _OneMetric(Metric(key=alarm, statistic=statistic, period_s=float(alarm["Period"])))


class _Rule:
    """An alarm's settings, with CloudWatch's defaults."""

    def __init__(self, alarm: Mapping[str, Any]) -> None:
        name = alarm.get("AlarmName", "alarm")
        if alarm["ComparisonOperator"] not in _COMPARE:
            raise LocalStackError(f"{name}: got {alarm['ComparisonOperator']}; allowed {', '.join(_COMPARE)}")
        self._compare, self._words = _COMPARE[alarm["ComparisonOperator"]]
        self._threshold = float(alarm["Threshold"])
        self.periods = int(alarm["EvaluationPeriods"])
        self._needed = int(alarm.get("DatapointsToAlarm") or self.periods)
        self.treatment: Treatment = alarm.get("TreatMissingData") or "missing"
        self._before: State = alarm.get("StateValue") or "INSUFFICIENT_DATA"
        self._drops_small = alarm.get("EvaluateLowSampleCountPercentile") == "ignore"
        self._statistic = None if alarm.get("Metrics") else _statistic(alarm, name)
        self.measured = _measured(alarm, self._statistic)

    def enough(self, point: Datapoint) -> bool:
        """Say whether a percentile has the samples to mean something, where the alarm asks for that."""
        share = self._statistic.share if self._statistic is not None else None
        if share is None or point.count is None or not self._drops_small:
            return True
        # guide, *Percentile-based alarms and low data samples*: 10 / (1 - p) from the median up, 10 / p below
        tail = 1 - share if share >= 0.5 else share  # noqa: PLR2004 - the median
        return tail <= 0 or point.count * tail >= 10 - 1e-9

    def judge(self, points: Sequence[Datapoint], treatment: Treatment) -> State:
        """Give the state that these datapoints and the treatment of the missing ones lead to."""
        breaching = [point for point in points if self._breaches(point)]
        gaps = self.periods - len(points)
        if gaps == 0 or treatment == "notBreaching":
            return self._state(len(breaching))
        if treatment == "breaching":
            return self._state(len(breaching) + gaps)
        if not points:
            return "INSUFFICIENT_DATA" if treatment == "missing" else self._before
        if len(breaching) >= self._needed or len(breaching) < len(points):
            return self._state(len(breaching))
        # only breaching data, and too little of it: an alarm if the oldest has stood for M periods, else too early
        stood = points[0].age >= self._needed
        return "ALARM" if stood and treatment == "missing" else self._before

    def reason(self, state: State, points: Sequence[Datapoint], treatment: Treatment) -> str:
        """Give the state's reason in CloudWatch's words."""
        gaps = self.periods - len(points)
        if not points and treatment in {"missing", "ignore"}:
            return f"Insufficient Data: {_count(gaps, 'datapoint')} unknown."
        crossed = self._crossed(state, points) if points else f"no datapoints were received for {_periods(gaps)}"
        filled = ""
        if gaps and treatment in {"breaching", "notBreaching"}:
            name = "Breaching" if treatment == "breaching" else "NonBreaching"
            filled = f" and {_count(gaps, 'missing datapoint')} treated as [{name}]"
        return f"Threshold Crossed: {crossed}{filled}."

    def _crossed(self, state: State, points: Sequence[Datapoint]) -> str:
        hits = [point for point in points if self._breaches(point) == (state == "ALARM")]
        shown = ", ".join(f"{point.value} ({_moment(point.start_s)})" for point in reversed(hits))
        verb = ("was" if len(hits) == 1 else "were") + ("" if state == "ALARM" else " not")
        needed = self._needed if state == "ALARM" else self.periods - self._needed + 1
        plural = "" if needed == 1 else "s"
        return (
            f"{len(hits)} out of the last {len(points)} datapoints [{shown}] {verb} {self._words} the threshold "
            f"({self._threshold}) (minimum {needed} datapoint{plural} for {self._before} -> {state} transition)"
        )

    def data(self, points: Sequence[Datapoint], now: datetime) -> str:
        """Give StateReasonData."""
        document: dict[str, Any] = {
            "version": "1.0",
            "queryDate": now.isoformat(timespec="milliseconds"),
            **({"statistic": self._statistic.name} if self._statistic is not None else {}),
            "period": self.measured.period_s,
            "recentDatapoints": [point.value for point in points],
            "threshold": self._threshold,
            "evaluatedDatapoints": [
                {
                    "timestamp": datetime.fromtimestamp(point.start_s, UTC).isoformat(),
                    **({"sampleCount": point.count} if point.count is not None else {}),
                    "value": point.value,
                }
                for point in reversed(points)
            ],
        }
        if points:
            document["startDate"] = document["evaluatedDatapoints"][-1]["timestamp"]
        return orjson.dumps(document).decode()

    def _state(self, breaching: int) -> State:
        return "ALARM" if breaching >= self._needed else "OK"

    def _breaches(self, point: Datapoint) -> bool:
        return self._compare(point.value, self._threshold)


def _statistic(alarm: Mapping[str, Any], name: str) -> Statistic:
    try:
        return Statistic.named(str(alarm.get("ExtendedStatistic") or alarm.get("Statistic") or ""))
    except LocalStackError as error:
        raise LocalStackError(f"{name}: {error}") from error


def _count(number: int, noun: str) -> str:
    return f"{number} {noun} was" if number == 1 else f"{number} {noun}s were"


def _periods(number: int) -> str:
    return f"{number} period" if number == 1 else f"{number} periods"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%d/%m/%y %H:%M:%S")
