"""Custom metrics to CloudWatch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, cast

from botocore.exceptions import BotoCoreError, ClientError

from serving.errors import TelemetryError

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.literals import StandardUnitType

NAMESPACE = "StreamHub/Inference"


class CloudWatchMetrics:
    """Puts values into one namespace."""

    def __init__(self, client: CloudWatchClient, *, namespace: str = NAMESPACE) -> None:
        self._client = client
        self._namespace = namespace

    def put(self, name: str, value: float, *, unit: str, dimensions: Mapping[str, str], at: datetime) -> None:
        """Publish one value; `unit` is one of CloudWatch's words.

        Raises:
            TelemetryError: CloudWatch refuses or does not answer.

        """
        try:
            self._client.put_metric_data(
                Namespace=self._namespace,
                MetricData=[
                    {
                        "MetricName": name,
                        "Value": value,
                        "Unit": cast("StandardUnitType", unit),
                        "Timestamp": at,
                        "Dimensions": [{"Name": key, "Value": text} for key, text in sorted(dimensions.items())],
                    }
                ],
            )
        except (ClientError, BotoCoreError) as error:
            raise TelemetryError(
                f"metric {name}: got {error}; allowed a finite value, a unit of CloudWatch and a time of the last two "
                f"weeks; check network and permissions"
            ) from error
