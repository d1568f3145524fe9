"""Decide the state of one CloudWatch metric alarm from samples, as CloudWatch does; pure.

One metric, its dimensions chosen by the caller; M out of N datapoints; missing data as in *Configuring how CloudWatch
alarms treat missing data* (CloudWatch guide). Windows slide: the last one ends at `now`, as CloudWatch's does each
minute (guide, *Alarm evaluation*). Metric math and anomaly bands are not here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

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


_STATISTICS: Mapping[str, Callable[[Sequence[Sample], float], float]] = {
    "Average": lambda samples, count: sum(sample.total for sample in samples) / count,
    "Sum": lambda samples, _: sum(sample.total for sample in samples),
    "Minimum": lambda samples, _: min(sample.least for sample in samples),
    "Maximum": lambda samples, _: max(sample.most for sample in samples),
    "SampleCount": lambda _, count: count,
}


@dataclass(frozen=True, slots=True)
class Datapoint:
    """One period's statistic; `age` 1 is the newest period."""

    age: int
    start_s: float
    value: float
    count: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state an alarm has now, why, and the reason as DescribeAlarms' StateReasonData."""

    state: State
    reason: str
    data: str


def evaluate(alarm: Mapping[str, Any], samples: Iterable[Sample], now: datetime) -> Outcome:
    """Give the state of an alarm.

    Args:
        alarm: a MetricAlarm of DescribeAlarms, or the parameters of PutMetricAlarm; StateValue is its state so far.
        samples: what was published of exactly its metric; older ones than the evaluation range are ignored.
        now: the end of the newest period; a sample of that very moment belongs to it.

    Raises:
        LocalStackError: the alarm uses what this evaluator lacks.

    """
    rule = _Rule(alarm)
    points = rule.datapoints(samples, now.timestamp())
    significant = [point for point in points if rule.enough(point)]
    treatment = rule.treatment if len(significant) == len(points) else "ignore"
    used = significant[-rule.periods :]
    state = rule.judge(used, treatment)
    return Outcome(state=state, reason=rule.reason(state, used, treatment), data=rule.data(used, now))


def window_s(alarm: Mapping[str, Any]) -> float:
    """Give how far back an evaluation looks, so that a caller reads no more."""
    return float(alarm["Period"] * (alarm["EvaluationPeriods"] + _EXTRA_PERIODS))


class _Rule:
    """An alarm's settings, with CloudWatch's defaults."""

    def __init__(self, alarm: Mapping[str, Any]) -> None:
        name = alarm.get("AlarmName", "alarm")
        if alarm.get("Metrics"):
            raise LocalStackError(f"{name}: metric math is not evaluated locally; give it one metric")
        if alarm["ComparisonOperator"] not in _COMPARE:
            raise LocalStackError(f"{name}: got {alarm['ComparisonOperator']}; allowed {', '.join(_COMPARE)}")
        self._compare, self._words = _COMPARE[alarm["ComparisonOperator"]]
        self._threshold = float(alarm["Threshold"])
        self._period = float(alarm["Period"])
        self.periods = int(alarm["EvaluationPeriods"])
        self._needed = int(alarm.get("DatapointsToAlarm") or self.periods)
        self.treatment: Treatment = alarm.get("TreatMissingData") or "missing"
        self._before: State = alarm.get("StateValue") or "INSUFFICIENT_DATA"
        self._statistic = str(alarm.get("ExtendedStatistic") or alarm.get("Statistic") or "")
        self._share = _percentile(self._statistic, name)
        self._drops_small = alarm.get("EvaluateLowSampleCountPercentile") == "ignore"

    def datapoints(self, samples: Iterable[Sample], now_s: float) -> list[Datapoint]:
        """Give the datapoints that exist in the evaluation range, oldest first."""
        reach = self.periods + _EXTRA_PERIODS
        buckets: dict[int, list[Sample]] = {}
        for sample in samples:
            age = int((now_s - sample.timestamp_s) // self._period) + 1
            if 1 <= age <= reach:
                buckets.setdefault(age, []).append(sample)
        found = []
        for age in sorted(buckets, reverse=True):
            value = self._value(buckets[age])
            if value is not None:
                count = sum(sample.count for sample in buckets[age])
                found.append(Datapoint(age=age, start_s=now_s - age * self._period, value=value, count=count))
        return found

    def enough(self, point: Datapoint) -> bool:
        """Say whether a percentile has the samples to mean something, where the alarm asks for that."""
        if self._share is None or not self._drops_small:
            return True
        # guide, *Percentile-based alarms and low data samples*: 10 / (1 - p) from the median up, 10 / p below
        tail = 1 - self._share if self._share >= 0.5 else self._share  # noqa: PLR2004 - the median
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
            "statistic": self._statistic,
            "period": self._period,
            "recentDatapoints": [point.value for point in points],
            "threshold": self._threshold,
            "evaluatedDatapoints": [
                {
                    "timestamp": datetime.fromtimestamp(point.start_s, UTC).isoformat(),
                    "sampleCount": point.count,
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

    def _value(self, samples: Sequence[Sample]) -> float | None:
        count = sum(sample.count for sample in samples)
        if count <= 0:
            return None
        if self._share is not None:
            return _at_share(samples, self._share, count)
        return _STATISTICS[self._statistic](samples, count)


def _percentile(statistic: str, name: str) -> float | None:
    if statistic in _STATISTICS:
        return None
    try:
        share = float(statistic.removeprefix("p")) / 100 if statistic.startswith("p") else -1.0
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise LocalStackError(
            f"{name}: got statistic {statistic or 'none'}; allowed {', '.join(_STATISTICS)}, p0.0 to p100"
        )
    return share


def _at_share(samples: Sequence[Sample], share: float, count: float) -> float | None:
    """Give the smallest value that at least this share of the samples does not exceed."""
    if any(sample.least < sample.most for sample in samples):
        return None  # a statistic set hides its values: CloudWatch has no percentile then
    seen = 0.0
    ordered = sorted(samples, key=lambda sample: sample.least)
    for sample in ordered:
        seen += sample.count
        if seen >= share * count - 1e-9:
            return sample.least
    return ordered[-1].least


def _count(number: int, noun: str) -> str:
    return f"{number} {noun} was" if number == 1 else f"{number} {noun}s were"


def _periods(number: int) -> str:
    return f"{number} period" if number == 1 else f"{number} periods"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%d/%m/%y %H:%M:%S")
