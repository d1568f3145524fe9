"""The prediction API of a stage: state, the prediction core in the shell that the stage chose, and its front door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.endpoint import Endpoint
from infra.fargate import PredictionService
from infra.feature_cache import FeatureCache
from infra.front_door import FrontDoor
from infra.function import ServiceFunction
from infra.http_api import PredictionApi
from infra.network import Network
from infra.state_table import StateTable
from serving.spec import StageSpec
from stacks.base import StageStack


class ApiStack(StageStack):
    """Everything between a client and the endpoints; `functions` is empty where the core runs as tasks."""

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
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, "api", stage=stage, description="prediction API")
        self._stage = stage
        self._network = network
        self._key = key
        self.functions: tuple[ServiceFunction, ...] = ()
        self.state = StateTable(self, "State", stage=stage, key=key)
        environment = {"STREAMHUB_STATE_TABLE": self.state.table_name, "STREAMHUB_FEATURES_URL": cache.url}
        if stage.api.shell == "lambda":
            self.door, role = self._on_lambda(environment, routes=routes, lambda_folder=lambda_folder)
        else:
            self.door, role = self._on_fargate(environment)
        self.state.grant_observe(role)
        cache.grant_connect(role)
        for endpoint in endpoints:
            endpoint.grant_invoke(role)
        CfnOutput(self, "ApiUrl", value=self.door.url)
        CfnOutput(self, "StateTable", value=self.state.table_name)

    def _on_lambda(
        self, environment: Mapping[str, str], *, routes: Sequence[str], lambda_folder: Path
    ) -> tuple[FrontDoor, iam.IGrantable]:
        predict = ServiceFunction(
            self,
            "Predict",
            stage=self._stage,
            name="predict",
            lambda_folder=lambda_folder,
            memory_mib=1769,  # one vCPU (Lambda guide, *configuration-memory*)
            timeout=Duration.seconds(10),
            network=self._network,
            environment=environment,
            key=self._key,
        )
        self.functions = (predict,)
        door = PredictionApi(self, "Http", stage=self._stage, function=predict, routes=routes, key=self._key)
        return door, predict.role

    def _on_fargate(self, environment: Mapping[str, str]) -> tuple[FrontDoor, iam.IGrantable]:
        service = PredictionService(
            self, "Service", stage=self._stage, network=self._network, environment=environment, key=self._key
        )
        return service, service.role
