"""The stage's private network."""

from __future__ import annotations

from aws_cdk import CfnOutput
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.network import Network
from serving.spec import StageSpec
from stacks.base import StageStack


class NetworkStack(StageStack):
    """One VPC a stage."""

    def __init__(self, scope: Construct, *, stage: StageSpec, key: kms.IKey | None) -> None:
        super().__init__(scope, "network", stage=stage, description="private network")
        self.network = Network(self, "Network", stage=stage, key=key)
        CfnOutput(self, "VpcId", value=self.network.vpc.vpc_id)
