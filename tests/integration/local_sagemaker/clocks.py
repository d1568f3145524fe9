"""A SageMaker whose time stands still until a test moves it, and the alarm that takes its deployments back."""

from __future__ import annotations

import asyncio
from typing import Any

from local.clock import ManualClock

ALARM = "rollback-alarm"


class Moved:
    """Moves the clock of a running service from the test's thread."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.aws: Any = None

    def advance(self, seconds: float) -> None:
        asyncio.run_coroutine_threadsafe(self.clock.advance(seconds), self.aws.loop).result(30)

    def add_alarm(self) -> None:
        """Make the alarm; its own state is OK until `set_alarm` says otherwise."""
        self.aws.cloudwatch.put_metric_alarm(
            AlarmName=ALARM,
            MetricName="none",
            Namespace="none",
            Statistic="Average",
            Period=60,
            EvaluationPeriods=1,
            Threshold=1,
            ComparisonOperator="GreaterThanThreshold",
        )
        self.set_alarm("OK")

    def set_alarm(self, state: str) -> None:
        self.aws.cloudwatch.set_alarm_state(AlarmName=ALARM, StateValue=state, StateReason="test")
