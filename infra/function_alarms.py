"""Alarms of one function: it raises, or it is refused for lack of concurrency."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.function import ServiceFunction

_PERIOD = Duration.minutes(5)


class FunctionAlarms(Construct):
    """`<function>-errors` and `<function>-throttles`: more than none in two of three periods of five minutes."""

    def __init__(self, scope: Construct, id_: str, *, function: ServiceFunction) -> None:
        super().__init__(scope, id_)
        metrics = {
            "errors": function.metric_errors(period=_PERIOD),
            "throttles": function.metric_throttles(period=_PERIOD),
        }
        for what, metric in metrics.items():
            cloudwatch.Alarm(
                self,
                what.capitalize(),
                alarm_name=f"{function.name}-{what}",
                alarm_description=f"{function.name}: {what}",
                metric=metric,
                threshold=0,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
                datapoints_to_alarm=2,
                evaluation_periods=3,
                treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            )
