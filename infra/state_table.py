"""The state table: release records, exposure counters and outcomes of a stage, under `pk` and `sk`."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from serving.spec import StageSpec

# a transaction is allowed by the actions of its items (DynamoDB guide, *transaction-apis-iam*)
_OBSERVE = ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
_RELEASE = ("dynamodb:GetItem", "dynamodb:Query", "dynamodb:PutItem")
ITEM_ACTIONS = tuple(sorted({*_OBSERVE, *_RELEASE}))
"""What anybody may do of items: nobody scans or deletes."""

# What a table's key wants of those who use the table (KMS guide, *services-dynamodb*).
_KEY_ACTIONS = (
    "kms:Encrypt",
    "kms:Decrypt",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
    "kms:GenerateDataKey",
    "kms:DescribeKey",
    "kms:CreateGrant",
)


class StateTable(Construct):
    """On-demand table with recovery to any second; items expire by `expires_at`; a kept one cannot be deleted."""

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec, key: kms.IKey | None) -> None:
        super().__init__(scope, id_)
        self._region = stage.region
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
            # without a key of ours DynamoDB encrypts with one that it owns
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if key is not None else None,
            encryption_key=key,
            deletion_protection=stage.removal == "retain",
            # also after a failed first deploy: CloudFormation cannot delete what is protected, and would end stuck
            removal_policy=RemovalPolicy.RETAIN if stage.removal == "retain" else RemovalPolicy.DESTROY,
        )
        self.table_name = self.table.table_name

    def grant_observe(self, grantee: iam.IGrantable) -> None:
        """Let it read a release's record, count exposures and write outcomes."""
        self._grant(grantee, _OBSERVE)

    def grant_release(self, grantee: iam.IGrantable) -> None:
        """Let it read evidence and records, and write records and their log."""
        self._grant(grantee, _RELEASE)

    def _grant(self, grantee: iam.IGrantable, actions: Sequence[str]) -> None:
        self.table.grant(grantee, *actions)
        if self.table.encryption_key is not None:
            iam.Grant.add_to_principal(
                grantee=grantee,
                actions=list(_KEY_ACTIONS),
                resource_arns=[self.table.encryption_key.key_arn],
                conditions={"StringEquals": {"kms:ViaService": f"dynamodb.{self._region}.amazonaws.com"}},
            )
