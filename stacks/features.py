"""The stage's feature cache."""

from __future__ import annotations

from aws_cdk import CfnOutput
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.feature_cache import FeatureCache
from infra.network import Network
from serving.spec import StageSpec
from stacks.base import StageStack


class FeaturesStack(StageStack):
    """One cache a stage, for all models."""

    def __init__(self, scope: Construct, *, stage: StageSpec, network: Network, key: kms.IKey | None) -> None:
        super().__init__(scope, "features", stage=stage, description="feature cache")
        self.cache = FeatureCache(self, "Cache", stage=stage, network=network, key=key)
        CfnOutput(self, "FeatureCacheEndpoint", value=self.cache.address)
        CfnOutput(self, "FeatureCacheUser", value=self.cache.user_name)
