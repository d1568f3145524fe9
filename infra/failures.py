"""Where events go that a function failed on each time: kept for people, and an alarm says that there are some."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.acknowledge import acknowledge
from serving.spec import StageSpec

_KEPT_DAYS = 14  # the longest that SQS keeps a message


class FailureQueue(Construct):
    """`streamhub-<stage>-failures`, over TLS only and encrypted by SQS."""

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec) -> None:
        super().__init__(scope, id_)
        name = f"streamhub-{stage.name}-failures"
        self.queue = sqs.Queue(
            self,
            "Queue",
            queue_name=name,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(_KEPT_DAYS),
        )
        acknowledge(self.queue, "AwsSolutions-SQS3", reason="it is the dead-letter queue itself")
        cloudwatch.Alarm(
            self,
            "Waiting",
            alarm_name=f"{name}-waiting",
            alarm_description="a scheduled run failed each time it was tried; its event waits in the queue",
            metric=self.queue.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(5), statistic="Maximum"
            ),
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=1,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
