"""What the compositions of all hosting modes share: a model as its stage has it, and the ground it stands on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.buckets import RegistryBucket, TelemetryBucket
from infra.container_logs import ContainerLogs, component_log_group, endpoint_log_group
from infra.images import ContainerImage, image_of
from infra.model import ExecutionRole, ModelVersion
from infra.network import Network
from serving.spec import SLOTS, ModelSpec, Slot, StageModel, StageSpec, in_stage
from serving.spec.manifest import LockedVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What every model stack of a stage stands on; all of it outlives any model."""

    stage: StageSpec
    network: Network
    registry: RegistryBucket
    telemetry: TelemetryBucket
    key: kms.IKey | None


@dataclass(frozen=True, kw_only=True)
class Hosting:
    """One model of a stage: its spec with the stage's values, its locked versions, its image."""

    ground: Ground
    model: ModelSpec
    entry: StageModel
    locks: Mapping[str, LockedVersion]

    @classmethod
    def of(cls, model: ModelSpec, *, ground: Ground, locks: Mapping[str, LockedVersion]) -> Hosting:
        """Take a model of the project into the ground's stage."""
        entry = ground.stage.models[model.name]
        return cls(ground=ground, model=in_stage(model, entry), entry=entry, locks=locks)

    @cached_property
    def image(self) -> ContainerImage:
        """The container that runs it here."""
        return image_of(self.model, self.ground.stage)

    def version_in(self, slot: Slot) -> str:
        """Give the version that the stage file puts into a slot."""
        return self.entry.versions.a if slot == "a" else self.entry.versions.b

    def role(self, scope: Construct, *, endpoint: str, components: Mapping[Slot, str] | None = None) -> ExecutionRole:
        """Make the role of one endpoint: it reads the model's packages, and its containers log where they may."""
        names = {slot.upper(): component_log_group(name) for slot, name in (components or {}).items()}
        names = names or {"Endpoint": endpoint_log_group(endpoint)}
        logs = ContainerLogs(scope, "ContainerLogs", names=names, stage=self.ground.stage, key=self.ground.key)
        role = ExecutionRole(
            scope,
            "Execution",
            endpoint=endpoint,
            model=self.model,
            image=self.image,
            network=self.ground.network,
            logs=logs,
        )
        role.allow_model(model=self.model, registry=self.ground.registry)
        if self.ground.key is not None:
            role.allow_volume_key(self.ground.key)
        return role

    def version(
        self, scope: Construct, id_: str, *, version: str, role: ExecutionRole, network: Network | None
    ) -> ModelVersion:
        """Make one version a SageMaker Model; without a network that is the endpoint config's."""
        return ModelVersion(
            scope,
            id_,
            model=self.model,
            locked=self.locks[version],
            image=self.image,
            role=role.role,
            registry=self.ground.registry,
            network=network,
            stage_deadline_ms=self.entry.deadline_ms,
        )

    def slot_versions(
        self, scope: Construct, *, role: ExecutionRole, network: Network | None
    ) -> dict[Slot, ModelVersion]:
        """Make what the stage file puts into slots a and b."""
        return {
            slot: self.version(
                scope,
                f"Version{slot.upper()}",
                version=self.version_in(slot),
                role=role,
                network=network,
            )
            for slot in SLOTS
        }
