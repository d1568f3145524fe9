"""One model in a stage: two versions, the endpoint that serves them, its scaling and its alarms."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CfnOutput
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.alarms import DriftAlarms, SlotAlarms
from infra.buckets import RegistryBucket, TelemetryBucket
from infra.endpoint import Endpoint, Placement, SlotConfig
from infra.images import image_of
from infra.model import ExecutionRole, ModelVersion
from infra.network import Network
from infra.scaling import SlotScaling
from serving.spec import SLOTS, ModelSpec, StageSpec
from serving.spec.manifest import LockedVersion
from stacks.base import StageStack


class ModelStack(StageStack):
    """A real-time endpoint with slots a and b."""

    def __init__(
        self,
        scope: Construct,
        *,
        stage: StageSpec,
        model: ModelSpec,
        locks: Mapping[str, LockedVersion],
        network: Network,
        registry: RegistryBucket,
        telemetry: TelemetryBucket,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, model.slug, stage=stage, description=f"model {model.name}")
        entry = stage.models[model.name]
        placement = Placement(model=model, entry=entry)
        image = image_of(model, stage)
        execution = ExecutionRole(self, "Execution", model=model, stage_name=stage.name, image=image, network=network)
        execution.allow_data(model=model, registry=registry, telemetry=telemetry)
        if key is not None:
            execution.allow_volume_key(key)
        versions = {
            slot: ModelVersion(
                self,
                f"Version{slot.upper()}",
                model=model,
                locked=locks[getattr(entry.versions, slot)],
                image=image,
                role=execution.role,
                registry=registry,
                network=network,
                deadline_ms=entry.deadline_ms,
            )
            for slot in SLOTS
        }
        config = SlotConfig(
            self,
            "Slots",
            model=model,
            placement=placement,
            versions=versions,
            image=image,
            telemetry=telemetry,
            key=key,
        )
        guards = SlotAlarms(self, "DeployGuards", stage=stage, model=model, config=config, datapoints=2, periods=3)
        execution.allow_guards(*guards.names)
        self.endpoint = Endpoint(self, "Endpoint", stage=stage, model=model, config=config, guards=guards.alarms)
        for slot in SLOTS:
            SlotScaling(
                self, f"Scaling{slot.upper()}", endpoint=self.endpoint, model=model, placement=placement, slot=slot
            )
        SlotAlarms(self, "Objectives", stage=stage, model=model, config=None, datapoints=3, periods=5)
        DriftAlarms(self, "Drift", stage=stage, model=model)
        CfnOutput(self, "EndpointName", value=self.endpoint.name)
