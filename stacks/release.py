"""What looks after models once they serve: the release controller and the drift runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.buckets import RegistryBucket, TelemetryBucket
from infra.endpoint import Endpoint
from infra.failures import FailureQueue
from infra.function import ServiceFunction
from infra.schedule import Schedule
from infra.state_table import StateTable
from infra.watch import allow_drift, allow_release
from serving.spec import ModelSpec, StageSpec
from stacks.base import StageStack

_TICK = Duration.minutes(5)


class ReleaseStack(StageStack):
    """Two functions on schedules: `release` every five minutes, `drift` once a window of each model."""

    def __init__(
        self,
        scope: Construct,
        *,
        stage: StageSpec,
        models: Mapping[str, ModelSpec],
        endpoints: Mapping[str, Endpoint],
        registry: RegistryBucket,
        telemetry: TelemetryBucket,
        state: StateTable,
        lambda_folder: Path,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, "release", stage=stage, description="releases and drift")
        buckets = {
            "STREAMHUB_REGISTRY_BUCKET": registry.bucket_name,
            "STREAMHUB_TELEMETRY_BUCKET": telemetry.bucket_name,
        }
        failures = FailureQueue(self, "Failures", stage=stage).queue
        self.release = ServiceFunction(
            self,
            "Release",
            stage=stage,
            name="release",
            lambda_folder=lambda_folder,
            environment={**buckets, "STREAMHUB_STATE_TABLE": state.table_name},
            memory_mib=512,
            timeout=_TICK,
            key=key,
            failures=failures,
            reserved_concurrency=1,  # ticks take turns; compare-and-set would only make the second one fail
        )
        self.drift = ServiceFunction(
            self,
            "Drift",
            stage=stage,
            name="drift",
            lambda_folder=lambda_folder,
            environment=buckets,
            memory_mib=1769,
            timeout=Duration.minutes(15),
            key=key,
            failures=failures,
        )
        state.grant_release(self.release.role)
        Schedule(
            self, "ReleaseTick", function=self.release, every=_TICK, event={}, description="decide on every release"
        )
        for name, endpoint in endpoints.items():
            model = models[name]
            allow_release(self.release, model=model, endpoint=endpoint, registry=registry, telemetry=telemetry)
            allow_drift(self.drift, model=model, endpoint=endpoint, registry=registry, telemetry=telemetry)
            self._compare_each_window(model)
        CfnOutput(self, "ReleaseFunction", value=self.release.name)
        CfnOutput(self, "DriftFunction", value=self.drift.name)

    def _compare_each_window(self, model: ModelSpec) -> None:
        Schedule(
            self,
            f"Drift-{model.slug}",
            function=self.drift,
            every=Duration.seconds(model.drift.window_s),
            event={"model": model.name},
            description=f"compare the last window of {model.name} with its baseline",
        )
