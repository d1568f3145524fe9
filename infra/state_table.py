"""The state table: release records, exposure counters and outcomes of a stage, under `pk` and `sk`."""

from __future__ import annotations

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.lifecycle import removal_policy
from serving.spec import StageSpec

_ACTIONS = (
    "dynamodb:GetItem",
    "dynamodb:BatchGetItem",
    "dynamodb:Query",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:ConditionCheckItem",
)


class StateTable(Construct):
    """On-demand table with recovery to any second; items expire by `expires_at`."""

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec) -> None:
        super().__init__(scope, id_)
        self.table = dynamodb.Table(
            self,
            "Table",
            table_name=f"streamhub-{stage.name}-state",
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expires_at",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=removal_policy(stage),
        )
        self.table_name = self.table.table_name

    def grant_read_write(self, grantee: iam.IGrantable) -> None:
        """Let it read items and ranges, and write items (alone or in transactions); it scans and deletes none."""
        self.table.grant(grantee, *_ACTIONS)
