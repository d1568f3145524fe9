"""What stands between clients and the prediction service, whichever shell it runs in, and the alarms on it."""

from __future__ import annotations

from typing import Protocol

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from serving.spec import StageSpec

_PERIOD = Duration.minutes(1)
_MAX_ERROR_SHARE = 0.01


class FrontDoor(Protocol):
    """An HTTP API or a load balancer, measured in the same words."""

    url: str

    def metric_requests(self, *, period: Duration) -> cloudwatch.IMetric:
        """Requests, a sum."""

    def metric_server_errors(self, *, period: Duration) -> cloudwatch.IMetric:
        """Answers of 5xx, a sum."""

    def metric_latency(self, *, period: Duration) -> cloudwatch.IMetric:
        """From the request's arrival to its answer, milliseconds, p99."""


class FrontDoorAlarms(Construct):
    """`streamhub-<stage>-api-errors` and `-api-p99`: what clients see, over all routes.

    A request is answered by its model's deadline or gets its fallback, so the longest deadline of the stage's models is
    what no p99 may pass.
    """

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec, door: FrontDoor, deadline_ms: float) -> None:
        super().__init__(scope, id_)
        share = cloudwatch.MathExpression(
            expression="IF(requests > 0, errors / requests, 0)",
            using_metrics={
                "errors": door.metric_server_errors(period=_PERIOD),
                "requests": door.metric_requests(period=_PERIOD),
            },
            label="share of 5xx",
            period=_PERIOD,
        )
        self._alarm(stage, "errors", share, above=_MAX_ERROR_SHARE, said="of the answers are 5xx")
        latency = door.metric_latency(period=_PERIOD)
        self._alarm(stage, "p99", latency, above=deadline_ms, said="ms is passed by the p99 of all routes")

    def _alarm(self, stage: StageSpec, what: str, metric: cloudwatch.IMetric, *, above: float, said: str) -> None:
        cloudwatch.Alarm(
            self,
            what.capitalize(),
            alarm_name=f"streamhub-{stage.name}-api-{what}",
            alarm_description=f"prediction API of {stage.name}: more than {above:g} {said}",
            metric=metric,
            threshold=above,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            datapoints_to_alarm=3,
            evaluation_periods=5,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
