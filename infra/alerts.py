"""Tell people about alarms: a topic with the stage's addresses, fed by every alarm of the stage that changes state."""

from __future__ import annotations

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.lifecycle import removal_policy
from serving.spec import StageSpec


class Alerts(Construct):
    """One topic; a rule on alarm names feeds it, so that an alarm needs no action of its own to be heard.

    Its key is one of its own in every stage: EventBridge may not use the key that AWS manages for SNS (SNS guide,
    *sns-enable-encryption-for-topic-sources*).
    """

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec) -> None:
        super().__init__(scope, id_)
        key = kms.Key(
            self,
            "Key",
            description=f"alerts of StreamHub Inference, {stage.name}",
            enable_key_rotation=True,
            removal_policy=removal_policy(stage),
        )
        key.grant(iam.ServicePrincipal("events.amazonaws.com"), "kms:GenerateDataKey", "kms:Decrypt")
        self.topic = sns.Topic(
            self, "Topic", topic_name=f"streamhub-{stage.name}-alerts", enforce_ssl=True, master_key=key
        )
        for address in stage.alarm_emails:
            self.topic.add_subscription(subscriptions.EmailSubscription(address))
        self._rule("AlarmRaised", "an alarm of the stage went into ALARM", stage=stage, state="ALARM")
        self._rule("AlarmCleared", "an alarm of the stage left ALARM", stage=stage, state="OK", previous="ALARM")

    def _rule(self, id_: str, description: str, *, stage: StageSpec, state: str, previous: str | None = None) -> None:
        detail: dict[str, object] = {
            "alarmName": events.Match.prefix(f"streamhub-{stage.name}-"),
            "state": {"value": [state]},
        }
        if previous is not None:  # a new alarm that finds its metric well is no news; one that never was OK is
            detail["previousState"] = {"value": [previous]}
        events.Rule(
            self,
            id_,
            description=description,
            event_pattern=events.EventPattern(
                source=["aws.cloudwatch"], detail_type=["CloudWatch Alarm State Change"], detail=detail
            ),
            targets=[targets.SnsTopic(self.topic)],
        )
