"""What people look at, and what calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import CfnOutput
from constructs import Construct

from infra.alerts import Alerts
from infra.dashboard import StageDashboard
from infra.front_door import FrontDoor, FrontDoorAlarms
from infra.function import ServiceFunction
from infra.function_alarms import FunctionAlarms
from infra.metrics import Measured
from serving.spec import ModelSpec, StageSpec
from stacks.base import StageStack


class MonitoringStack(StageStack):
    """Dashboard, alarms of the API and the functions, and the topic that all alarms of the stage reach."""

    def __init__(
        self,
        scope: Construct,
        *,
        stage: StageSpec,
        models: Mapping[str, ModelSpec],
        hosted: Mapping[str, Sequence[Measured]],
        door: FrontDoor,
        functions: Sequence[ServiceFunction],
        deadline_ms: float,
    ) -> None:
        super().__init__(scope, "monitoring", stage=stage, description="dashboard and alerts")
        dashboard = StageDashboard(self, "Overview", stage=stage)
        for name, endpoints in hosted.items():
            for endpoint in endpoints:
                dashboard.add_endpoint(models[name], endpoint)
        dashboard.add_service(door, functions)
        FrontDoorAlarms(self, "Api", stage=stage, door=door, deadline_ms=deadline_ms)
        for function in functions:
            FunctionAlarms(self, f"Alarms-{function.name}", function=function)
        alerts = Alerts(self, "Alerts", stage=stage)
        CfnOutput(self, "AlertTopic", value=alerts.topic.topic_arn)
