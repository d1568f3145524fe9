"""One dashboard a stage: a row a model, and a row for the functions and the API."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.endpoint import Endpoint
from infra.function import ServiceFunction
from infra.http_api import PredictionApi
from infra.metrics import endpoint_metric, in_milliseconds
from serving.spec import SLOTS, ModelSpec, StageSpec

_PERIOD = Duration.minutes(1)
_QUARTER = 6


class StageDashboard(Construct):
    """`streamhub-<stage>`: traffic, p99 in milliseconds against the objective, errors and drift of every model."""

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec) -> None:
        super().__init__(scope, id_)
        self._stage = stage
        self._dashboard = cloudwatch.Dashboard(
            self, "Dashboard", dashboard_name=f"streamhub-{stage.name}", default_interval=Duration.hours(12)
        )

    def add_model(self, model: ModelSpec, endpoint: Endpoint) -> None:
        """Add a model's row."""
        latencies = [
            in_milliseconds(endpoint.metric_model_latency(slot), id_=f"p99_{slot}", label=f"{slot} p99 ms")
            for slot in SLOTS
        ]
        objective = cloudwatch.HorizontalAnnotation(value=model.slo.p99_ms, label="objective")
        drift = endpoint_metric(
            "MaxDriftScore",
            stage=self._stage.name,
            endpoint=endpoint.name,
            statistic="Maximum",
            period=Duration.seconds(model.drift.window_s),
        )
        limit = cloudwatch.HorizontalAnnotation(value=model.drift.alarm_size, label="alarm")
        self._dashboard.add_widgets(
            _graph(f"{model.name}: requests a minute", [endpoint.metric_invocations(slot) for slot in SLOTS]),
            _graph("latency in the container", latencies, marks=[objective]),
            _graph("share of 5xx", [endpoint.metric_error_rate(slot) for slot in SLOTS]),
            _graph("drift of the worst feature", [drift], marks=[limit]),
        )

    def add_service(self, api: PredictionApi, functions: Sequence[ServiceFunction]) -> None:
        """Add the row of the API and its functions."""
        self._dashboard.add_widgets(
            _graph("API: p99 ms", [api.metric_latency(period=_PERIOD)]),
            _graph("API: answers of 5xx", [api.metric_server_errors(period=_PERIOD)]),
            _graph("functions: errors", [function.metric_errors(period=_PERIOD) for function in functions]),
            _graph("functions: throttles", [function.metric_throttles(period=_PERIOD) for function in functions]),
        )


def _graph(
    title: str,
    metrics: Sequence[cloudwatch.IMetric],
    *,
    marks: Sequence[cloudwatch.HorizontalAnnotation] = (),
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), left_annotations=list(marks), width=_QUARTER)
