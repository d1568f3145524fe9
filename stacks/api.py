"""The prediction API of a stage: state, the predict function and its HTTP API."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aws_cdk import CfnOutput, Duration
from constructs import Construct

from infra.endpoint import Endpoint
from infra.feature_cache import FeatureCache
from infra.function import ServiceFunction
from infra.http_api import PredictionApi
from infra.network import Network
from infra.state_table import StateTable
from serving.spec import StageSpec
from stacks.base import StageStack


class ApiStack(StageStack):
    """Everything between a client and the endpoints."""

    def __init__(
        self,
        scope: Construct,
        *,
        stage: StageSpec,
        network: Network,
        cache: FeatureCache,
        endpoints: Sequence[Endpoint],
        routes: Sequence[str],
        lambda_folder: Path,
    ) -> None:
        super().__init__(scope, "api", stage=stage, description="prediction API")
        self.state = StateTable(self, "State", stage=stage)
        self.predict = ServiceFunction(
            self,
            "Predict",
            stage=stage,
            name="predict",
            lambda_folder=lambda_folder,
            memory_mib=1769,  # one vCPU (Lambda guide, *configuration-memory*)
            timeout=Duration.seconds(10),
            network=network,
            environment={
                "STREAMHUB_STATE_TABLE": self.state.table_name,
                "STREAMHUB_FEATURES_URL": cache.url,
            },
        )
        self.state.grant_read_write(self.predict.role)
        cache.grant_connect(self.predict.role)
        for endpoint in endpoints:
            endpoint.grant_invoke(self.predict.role)
        self.api = PredictionApi(self, "Http", stage=stage, function=self.predict, routes=routes)
        CfnOutput(self, "ApiUrl", value=self.api.url)
        CfnOutput(self, "StateTable", value=self.state.table_name)
