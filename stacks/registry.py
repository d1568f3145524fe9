"""Where models and records live: they outlast every other stack."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import CfnOutput
from constructs import Construct

from infra.buckets import AccessLogBucket, DataKey, RegistryBucket, TelemetryBucket
from infra.image_repository import ImageRepository
from serving.spec import StageSpec
from stacks.base import StageStack


class RegistryStack(StageStack):
    """The registry and telemetry buckets of a stage, their key, and the repository of the API's image.

    `answer_prefixes` are where async endpoints write in the telemetry bucket.
    """

    def __init__(self, scope: Construct, *, stage: StageSpec, answer_prefixes: Sequence[str]) -> None:
        super().__init__(scope, "registry", stage=stage, description="model registry and telemetry")
        self.key = DataKey(self, "DataKey", stage=stage).key
        access_logs = AccessLogBucket(self, "AccessLogs", stage=stage).bucket
        self.registry = RegistryBucket(self, "Registry", stage=stage, key=self.key, access_logs=access_logs)
        self.telemetry = TelemetryBucket(
            self, "Telemetry", stage=stage, key=self.key, access_logs=access_logs, answer_prefixes=answer_prefixes
        )
        if stage.api.shell == "fargate":
            images = ImageRepository(self, "Images", stage=stage, key=self.key)
            CfnOutput(self, "ImageRepository", value=images.repository.repository_uri)
        CfnOutput(self, "RegistryBucket", value=self.registry.bucket_name)
        CfnOutput(self, "TelemetryBucket", value=self.telemetry.bucket_name)
