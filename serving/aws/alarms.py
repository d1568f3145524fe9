"""What CloudWatch says of an alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from serving.errors import TelemetryError

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient


class CloudWatchAlarms:
    """Reads alarm states."""

    def __init__(self, client: CloudWatchClient) -> None:
        self._client = client

    def state(self, name: str) -> str:
        """Give OK, ALARM or INSUFFICIENT_DATA (CloudWatch API reference, *MetricAlarm*, StateValue).

        Raises:
            TelemetryError: there is no such alarm, or CloudWatch does not answer.

        """
        try:
            found = self._client.describe_alarms(AlarmNames=[name])["MetricAlarms"]
        except (BotoCoreError, ClientError) as error:
            raise TelemetryError(f"alarm {name}: CloudWatch does not answer: {error}") from None
        if not found:
            raise TelemetryError(f"alarm {name}: got no such alarm; allowed one of a deployed stage; deploy it first")
        return str(found[0]["StateValue"])
