"""Alarms of one endpoint, derived from its model's objectives; names are `streamhub-<stage>-<slug>-<what>`."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.endpoint import SlotConfig
from infra.metrics import endpoint_metric, model_latency_threshold, variant_metric
from serving.spec import SLOTS, ModelSpec, StageSpec, endpoint_name

_ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
_AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
_BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_QUIET = cloudwatch.TreatMissingData.NOT_BREACHING
_MISSED_RUNS = 2


class SlotAlarms(Construct):
    """Latency and errors of both slots: of the endpoint as it stands, or of one config's fleet while it is deployed.

    Alarms without the config's name see both fleets of a deployment, and a sick old one would stop its own cure
    (SageMaker guide, *deployment-guardrails-configuration*).
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: StageSpec,
        model: ModelSpec,
        config: SlotConfig | None,
        datapoints: int,
        periods: int,
    ) -> None:
        super().__init__(scope, id_)
        endpoint = endpoint_name(stage.name, model.slug)
        infix = "-deploy" if config is not None else ""
        of_config = config.config_name if config is not None else None
        objectives = {
            "p99": ("ModelLatency", "p99", model_latency_threshold(model.slo.p99_ms)),
            "errors": ("Invocation5XXErrors", "Average", model.release.guardrails.max_error_rate),
        }
        named = {
            f"{endpoint}{infix}-{what}-{slot}": cloudwatch.Alarm(
                self,
                f"{what.capitalize()}{slot.upper()}",
                alarm_name=f"{endpoint}{infix}-{what}-{slot}",
                alarm_description=f"{model.name}, slot {slot}: {metric} {statistic} above {limit:g}",
                metric=variant_metric(metric, endpoint=endpoint, slot=slot, statistic=statistic, config=of_config),
                threshold=limit,
                comparison_operator=_ABOVE,
                datapoints_to_alarm=datapoints,
                evaluation_periods=periods,
                treat_missing_data=_QUIET,
                evaluate_low_sample_count_percentile="ignore" if statistic == "p99" else None,
            )
            for what, (metric, statistic, limit) in objectives.items()
            for slot in SLOTS
        }
        self.names = tuple(named)
        self.alarms = tuple(named.values())


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
