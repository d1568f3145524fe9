"""Whether alarms of CloudWatch that may take a deployment back are in ALARM."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

AlarmStates = Callable[[Sequence[str]], Awaitable[bool]]
"""Says whether one of these alarms is in ALARM."""
_log = logging.getLogger(__name__)


def alarm_states(cloudwatch: Any) -> AlarmStates:  # noqa: ANN401 - a boto3 client
    """Ask CloudWatch each time; no answer is no alarm."""

    def ask(names: Sequence[str]) -> bool:
        try:
            found = cloudwatch.describe_alarms(AlarmNames=list(names), AlarmTypes=["MetricAlarm", "CompositeAlarm"])
        except (BotoCoreError, ClientError) as error:
            _log.warning("alarms %s cannot be read: %s", ", ".join(names), error)
            return False
        alarms = [*found.get("MetricAlarms", ()), *found.get("CompositeAlarms", ())]
        return any(alarm["StateValue"] == "ALARM" for alarm in alarms)

    async def alarmed(names: Sequence[str]) -> bool:
        return await asyncio.to_thread(ask, names)

    return alarmed
