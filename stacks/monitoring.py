"""What people look at, and what calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import CfnOutput
from constructs import Construct

from infra.alerts import Alerts
from infra.dashboard import StageDashboard
from infra.endpoint import Endpoint
from infra.function import ServiceFunction
from infra.function_alarms import FunctionAlarms
from infra.http_api import PredictionApi
from serving.spec import ModelSpec, StageSpec
from stacks.base import StageStack


class MonitoringStack(StageStack):
    """Dashboard, alarms of the functions, and the topic that all alarms of the stage reach."""

    def __init__(
        self,
        scope: Construct,
        *,
        stage: StageSpec,
        models: Mapping[str, ModelSpec],
        endpoints: Mapping[str, Endpoint],
        api: PredictionApi,
        functions: Sequence[ServiceFunction],
    ) -> None:
        super().__init__(scope, "monitoring", stage=stage, description="dashboard and alerts")
        dashboard = StageDashboard(self, "Overview", stage=stage)
        for name, endpoint in endpoints.items():
            dashboard.add_model(models[name], endpoint)
        dashboard.add_service(api, functions)
        for function in functions:
            FunctionAlarms(self, f"Alarms-{function.name}", function=function)
        alerts = Alerts(self, "Alerts", stage=stage)
        CfnOutput(self, "AlertTopic", value=alerts.topic.topic_arn)
