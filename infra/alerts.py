"""Tell people about alarms: a topic with the stage's addresses, fed by every alarm of the stage that changes state."""

from __future__ import annotations

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from serving.spec import StageSpec


class Alerts(Construct):
    """One topic; a rule on alarm names feeds it, so that an alarm needs no action of its own to be heard."""

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec) -> None:
        super().__init__(scope, id_)
        self.topic = sns.Topic(self, "Topic", topic_name=f"streamhub-{stage.name}-alerts", enforce_ssl=True)
        for address in stage.alarm_emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))
        events.Rule(
            self,
            "AlarmChanged",
            description="an alarm of the stage went into or out of ALARM",
            event_pattern=events.EventPattern(
                source=["aws.cloudwatch"],
                detail_type=["CloudWatch Alarm State Change"],
                detail={
                    "alarmName": events.Match.prefix(f"streamhub-{stage.name}-"),
                    "state": {"value": ["ALARM", "OK"]},
                    "previousState": {"value": ["ALARM", "OK"]},
                },
            ),
            targets=[targets.SnsTopic(self.topic)],
        )
