"""Alarms with their state and since when, the loud ones first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from local.page.document import MAX_ALARMS, Alarm, short

# Application Auto Scaling names the alarms of its policies so (guide, target tracking)
_OF_TRACKING: Final = "TargetTracking-"
_ORDER: Final = {"ALARM": 0, "INSUFFICIENT_DATA": 1, "OK": 2}
_SIGNS: Final = {
    "GreaterThanThreshold": "above",
    "GreaterThanOrEqualToThreshold": "at or above",
    "LessThanThreshold": "below",
    "LessThanOrEqualToThreshold": "at or below",
}


class AlarmReader:
    """Reads metric and composite alarms of one stack."""

    def __init__(self, cloudwatch: Any) -> None:  # noqa: ANN401 - boto3 makes clients at run time
        self._cloudwatch = cloudwatch

    def read(self) -> tuple[list[Alarm], int]:
        """Give the alarms, and how many were left off."""
        pages = self._cloudwatch.get_paginator("describe_alarms").paginate(AlarmTypes=["MetricAlarm", "CompositeAlarm"])
        found = [
            alarm
            for page in pages
            for alarm in (
                *map(_metric, page.get("MetricAlarms", ())),
                *map(_composite, page.get("CompositeAlarms", ())),
            )
        ]
        found.sort(key=lambda alarm: (_ORDER.get(alarm.state, 1), alarm.name))
        return found[:MAX_ALARMS], max(0, len(found) - MAX_ALARMS)


def _metric(alarm: Mapping[str, Any]) -> Alarm:
    return _alarm(alarm, watches=_condition(alarm))


def _composite(alarm: Mapping[str, Any]) -> Alarm:
    return _alarm(alarm, watches=alarm.get("AlarmRule", ""))


def _alarm(alarm: Mapping[str, Any], *, watches: str) -> Alarm:
    return Alarm(
        name=short(alarm["AlarmName"]),
        state=alarm["StateValue"],
        # the first is when the state last changed, the second also when only its reason did (API MetricAlarm)
        since=alarm.get("StateTransitionedTimestamp") or alarm["StateUpdatedTimestamp"],
        watches=short(watches),
        reason=short(alarm.get("StateReason", "")),
        scales=alarm["AlarmName"].startswith(_OF_TRACKING),
    )


def _condition(alarm: Mapping[str, Any]) -> str:
    periods = alarm.get("EvaluationPeriods", 1)
    needed = alarm.get("DatapointsToAlarm") or periods
    statistic = alarm.get("ExtendedStatistic") or alarm.get("Statistic") or ""
    what = " ".join(word for word in (alarm.get("MetricName", "metric math"), statistic) if word)
    sign = _SIGNS.get(alarm.get("ComparisonOperator", ""), alarm.get("ComparisonOperator", ""))
    limit = f"{alarm['Threshold']:g}" if "Threshold" in alarm else "its band"
    return f"{what} {sign} {limit}, {needed} of {periods} periods of {alarm.get('Period', 60)} s"
