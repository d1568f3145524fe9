"""One dashboard a stage: a row an endpoint, and a row for the API and the functions."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.asynchronous import AsyncEndpoint
from infra.endpoint import Endpoint
from infra.front_door import FrontDoor
from infra.function import ServiceFunction
from infra.metrics import Measured, endpoint_metric, in_milliseconds
from serving.spec import ModelSpec, StageSpec

_PERIOD = Duration.minutes(1)
_QUARTER = 6


class StageDashboard(Construct):
    """`streamhub-<stage>`: traffic, p99 in milliseconds against the objective, errors and drift of every endpoint."""

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec) -> None:
        super().__init__(scope, id_)
        self._stage = stage
        self._dashboard = cloudwatch.Dashboard(
            self, "Dashboard", dashboard_name=f"streamhub-{stage.name}", default_interval=Duration.hours(12)
        )

    def add_endpoint(self, model: ModelSpec, endpoint: Measured) -> None:
        """Add the row of one endpoint of a model, with its variants or components in one graph each."""
        parts = list(endpoint.parts)
        latencies = [
            in_milliseconds(endpoint.metric_model_latency(part), id_=f"p99_{number}", label=f"{part} p99 ms")
            for number, part in enumerate(parts)
        ]
        objective = cloudwatch.HorizontalAnnotation(value=model.slo.p99_ms, label="objective")
        row = [
            _graph(f"{endpoint.name}: requests a minute", [endpoint.metric_invocations(part) for part in parts]),
            _graph("latency in the container", latencies, marks=[objective]),
            _graph("share of 5xx", [endpoint.metric_error_rate(part) for part in parts]),
        ]
        if isinstance(endpoint, Endpoint):
            row.append(self._drift(model, endpoint))
        if isinstance(endpoint, AsyncEndpoint):
            row.append(_graph("requests that wait", [endpoint.metric_backlog()]))
        self._dashboard.add_widgets(*row)

    def add_service(self, door: FrontDoor, functions: Sequence[ServiceFunction]) -> None:
        """Add the row of the API and the functions."""
        self._dashboard.add_widgets(
            _graph("API: p99 ms", [door.metric_latency(period=_PERIOD)]),
            _graph(
                "API: requests, answers of 5xx",
                [door.metric_requests(period=_PERIOD), door.metric_server_errors(period=_PERIOD)],
            ),
            _graph("functions: errors", [function.metric_errors(period=_PERIOD) for function in functions]),
            _graph("functions: throttles", [function.metric_throttles(period=_PERIOD) for function in functions]),
        )

    def _drift(self, model: ModelSpec, endpoint: Endpoint) -> cloudwatch.GraphWidget:
        score = endpoint_metric(
            "MaxDriftScore",
            stage=self._stage.name,
            endpoint=endpoint.name,
            statistic="Maximum",
            period=Duration.seconds(model.drift.window_s),
        )
        limit = cloudwatch.HorizontalAnnotation(value=model.drift.alarm_size, label="alarm")
        return _graph("drift of the worst feature", [score], marks=[limit])


def _graph(
    title: str,
    metrics: Sequence[cloudwatch.IMetric],
    *,
    marks: Sequence[cloudwatch.HorizontalAnnotation] = (),
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), left_annotations=list(marks), width=_QUARTER)
