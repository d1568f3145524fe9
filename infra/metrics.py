"""Names and units of metrics, for alarms and dashboards; the only place that knows microseconds.

SageMaker publishes ModelLatency and OverheadLatency in microseconds (SageMaker guide, *monitoring-cloudwatch*).
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from serving.spec import Slot

SAGEMAKER = "AWS/SageMaker"
OURS = "StreamHub/Inference"
_US_PER_MS = 1000.0
_MINUTE = Duration.minutes(1)


def model_latency_threshold(limit_ms: float) -> float:
    """Give a limit in milliseconds in the unit of `model_latency`."""
    return limit_ms * _US_PER_MS


def in_milliseconds(latency: cloudwatch.IMetric, *, id_: str, label: str) -> cloudwatch.MathExpression:
    """Give a SageMaker latency for a graph; `id_` is unique in the graph and starts in lower case."""
    return cloudwatch.MathExpression(
        expression=f"{id_} / {_US_PER_MS:g}", using_metrics={id_: latency}, label=label, period=_MINUTE
    )


def variant_metric(
    name: str,
    *,
    endpoint: str,
    slot: Slot,
    statistic: str,
    config: str | None = None,
    label: str | None = None,
) -> cloudwatch.Metric:
    """Give a metric of one variant; `config` narrows it to the fleet of one endpoint config while that is deployed."""
    dimensions = {"EndpointName": endpoint, "VariantName": slot}
    if config is not None:
        dimensions["EndpointConfigName"] = config
    return cloudwatch.Metric(
        namespace=SAGEMAKER,
        metric_name=name,
        dimensions_map=dimensions,
        statistic=statistic,
        period=_MINUTE,
        label=label,
    )


def endpoint_metric(
    name: str, *, stage: str, endpoint: str, statistic: str, period: Duration, label: str | None = None
) -> cloudwatch.Metric:
    """Give one of our own metrics of a whole endpoint."""
    return cloudwatch.Metric(
        namespace=OURS,
        metric_name=name,
        dimensions_map={"Stage": stage, "Endpoint": endpoint},
        statistic=statistic,
        period=period,
        label=label,
    )
