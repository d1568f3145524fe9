"""Alarms of one endpoint, derived from its model's spec; names are `streamhub-<stage>-<slug>-<what>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.endpoint_config import EndpointConfig
from infra.metrics import (
    SAGEMAKER,
    Dimensions,
    endpoint_metric,
    model_latency_threshold,
    sagemaker_metric,
    variant_dimensions,
)
from infra.model import ExecutionRole
from serving.spec import ModelSpec, StageSpec, endpoint_name

_ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
_AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
_BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_QUIET = cloudwatch.TreatMissingData.NOT_BREACHING
_MISSED_RUNS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One promise: `metric` by `statistic` stays at or below `limit`, in the metric's own unit."""

    what: str
    namespace: str = SAGEMAKER
    metric: str
    statistic: str
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many minutes (`datapoints`) of the last `periods` must break a promise."""

    datapoints: int
    periods: int


SERVING = Patience(datapoints=3, periods=5)
"""For an endpoint as it stands."""
DEPLOYING = Patience(datapoints=2, periods=3)
"""For a new fleet, which few requests reach and whose update waits."""


def latency_objective(model: ModelSpec) -> Objective:
    """Give the p99 that the spec promises, in microseconds."""
    limit = model_latency_threshold(model.slo.p99_ms)
    return Objective(what="p99", metric="ModelLatency", statistic="p99", limit=limit)


def error_objective(model: ModelSpec) -> Objective:
    """Give the share of 5xx that the guardrail allows."""
    limit = model.release.guardrails.max_error_rate
    return Objective(what="errors", metric="Invocation5XXErrors", statistic="Average", limit=limit)


def disk_objective() -> Objective:
    """Give the use of disks above which SageMaker may stop to capture (guide, *model-monitor-data-capture*)."""
    return Objective(
        what="disk", namespace="/aws/sagemaker/Endpoints", metric="DiskUtilization", statistic="Maximum", limit=75
    )


class ObjectiveAlarms(Construct):
    """One alarm an objective and part (variant or component): `<prefix>-<what>-<part>`.

    The parts of a deployment's guards carry the config's name: alarms without it see both fleets, and a sick old one
    would stop its own cure (SageMaker guide, *deployment-guardrails-configuration*).
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        prefix: str,
        model: ModelSpec,
        parts: Mapping[str, Dimensions],
        objectives: Sequence[Objective],
        patience: Patience,
    ) -> None:
        super().__init__(scope, id_)
        named = {f"{prefix}-{objective.what}-{part}": (objective, part) for objective in objectives for part in parts}
        self.names = tuple(named)
        self.alarms = tuple(
            cloudwatch.Alarm(
                self,
                f"{objective.what.capitalize()}{part.capitalize()}",
                alarm_name=name,
                alarm_description=_said(model, part, objective),
                metric=sagemaker_metric(
                    objective.metric,
                    dimensions=parts[part],
                    statistic=objective.statistic,
                    namespace=objective.namespace,
                ),
                threshold=objective.limit,
                comparison_operator=_ABOVE,
                datapoints_to_alarm=patience.datapoints,
                evaluation_periods=patience.periods,
                treat_missing_data=_QUIET,
                evaluate_low_sample_count_percentile="ignore" if objective.statistic == "p99" else None,
            )
            for name, (objective, part) in named.items()
        )


def _said(model: ModelSpec, part: str, objective: Objective) -> str:
    return f"{model.name}, {part}: {objective.metric} {objective.statistic} above {objective.limit:g}"


def deploy_guards(
    scope: Construct,
    *,
    endpoint: str,
    model: ModelSpec,
    variants: Sequence[str],
    config: EndpointConfig,
    objectives: Sequence[Objective],
    role: ExecutionRole,
) -> tuple[cloudwatch.Alarm, ...]:
    """Give the alarms `<endpoint>-deploy-…` of one config's fleet, and let the endpoint's role read them."""
    guards = ObjectiveAlarms(
        scope,
        "DeployGuards",
        prefix=f"{endpoint}-deploy",
        model=model,
        parts={variant: variant_dimensions(endpoint, variant, config=config.config_name) for variant in variants},
        objectives=objectives,
        patience=DEPLOYING,
    )
    role.allow_guards(*guards.names)
    return guards.alarms


class DriftAlarms(Construct):
    """Drift of the worst feature, and the heartbeat without which silence would look like health."""

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec, model: ModelSpec) -> None:
        super().__init__(scope, id_)
        endpoint = endpoint_name(stage.name, model.slug)
        drift = model.drift
        window = Duration.seconds(drift.window_s)
        self.drift = cloudwatch.Alarm(
            self,
            "Drift",
            alarm_name=f"{endpoint}-drift",
            alarm_description=f"{model.name}: a feature drifted by {drift.alarm_size:g} or more",
            metric=endpoint_metric(
                "MaxDriftScore", stage=stage.name, endpoint=endpoint, statistic="Maximum", period=window
            ),
            threshold=drift.alarm_size,
            comparison_operator=_AT_LEAST,
            datapoints_to_alarm=drift.alarm_windows,
            evaluation_periods=drift.of_windows,
            treat_missing_data=_QUIET,
        )
        self.heartbeat = cloudwatch.Alarm(
            self,
            "Heartbeat",
            alarm_name=f"{endpoint}-drift-heartbeat",
            alarm_description=f"{model.name}: no drift run ended in {_MISSED_RUNS} windows",
            metric=endpoint_metric(
                "DriftRunCompleted", stage=stage.name, endpoint=endpoint, statistic="Sum", period=window
            ),
            threshold=1,
            comparison_operator=_BELOW,
            datapoints_to_alarm=_MISSED_RUNS,
            evaluation_periods=_MISSED_RUNS,
            treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
        )
