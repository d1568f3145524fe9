"""Where models and records live: they outlast every other stack."""

from __future__ import annotations

from aws_cdk import CfnOutput
from constructs import Construct

from infra.buckets import AccessLogBucket, DataKey, RegistryBucket, TelemetryBucket
from serving.spec import StageSpec
from stacks.base import StageStack


class RegistryStack(StageStack):
    """The registry and telemetry buckets of a stage, and their key."""

    def __init__(self, scope: Construct, *, stage: StageSpec) -> None:
        super().__init__(scope, "registry", stage=stage, description="model registry and telemetry")
        self.key = DataKey(self, "DataKey", stage=stage).key
        access_logs = AccessLogBucket(self, "AccessLogs", stage=stage).bucket
        self.registry = RegistryBucket(self, "Registry", stage=stage, key=self.key, access_logs=access_logs)
        self.telemetry = TelemetryBucket(self, "Telemetry", stage=stage, key=self.key, access_logs=access_logs)
        CfnOutput(self, "RegistryBucket", value=self.registry.bucket_name)
        CfnOutput(self, "TelemetryBucket", value=self.telemetry.bucket_name)
