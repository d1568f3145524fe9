"""Names and units of metrics, for alarms and dashboards; the only place that knows microseconds.

SageMaker publishes ModelLatency and OverheadLatency in microseconds (SageMaker guide, *monitoring-cloudwatch*).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

SAGEMAKER = "AWS/SageMaker"
OURS = "StreamHub/Inference"
_US_PER_MS = 1000.0
_MINUTE = Duration.minutes(1)

Dimensions = Mapping[str, str]


class Measured(Protocol):
    """What a dashboard draws of an endpoint of any mode: `parts` are its variants or components by name."""

    name: str
    parts: Mapping[str, Dimensions]

    def metric_model_latency(self, part: str, *, statistic: str = "p99") -> cloudwatch.Metric:
        """Time in the container as SageMaker sees it, microseconds."""

    def metric_error_rate(self, part: str) -> cloudwatch.Metric:
        """Share of invocations that ended in 5xx."""

    def metric_invocations(self, part: str) -> cloudwatch.Metric:
        """Requests a minute."""


def variant_dimensions(endpoint: str, variant: str, *, config: str | None = None) -> Dimensions:
    """Name one variant; `config` narrows it to the fleet of one endpoint config while that is deployed."""
    narrowed = {} if config is None else {"EndpointConfigName": config}
    return {"EndpointName": endpoint, "VariantName": variant, **narrowed}


def component_dimensions(component: str) -> Dimensions:
    """Name one inference component; its metrics carry no endpoint (guide, *monitoring-cloudwatch*)."""
    return {"InferenceComponentName": component}


def model_latency_threshold(limit_ms: float) -> float:
    """Give a limit in milliseconds in the unit of `model_latency`."""
    return limit_ms * _US_PER_MS


def in_milliseconds(latency: cloudwatch.IMetric, *, id_: str, label: str) -> cloudwatch.MathExpression:
    """Give a SageMaker latency for a graph; `id_` is unique in the graph and starts in lower case."""
    return cloudwatch.MathExpression(
        expression=f"{id_} / {_US_PER_MS:g}", using_metrics={id_: latency}, label=label, period=_MINUTE
    )


def sagemaker_metric(
    name: str,
    *,
    dimensions: Dimensions,
    statistic: str,
    namespace: str = SAGEMAKER,
    period: Duration = _MINUTE,
    label: str | None = None,
) -> cloudwatch.Metric:
    """Give a metric that SageMaker publishes, of a variant, a component or a whole endpoint."""
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dict(dimensions),
        statistic=statistic,
        period=period,
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
