"""What a stage's templates would make, in the words that the checks need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from serving.errors import PreflightError
from serving.preflight.templates import PlannedStack, Resolver, Resource, read_stacks, referenced

VARIANT_DIMENSION: Final = "sagemaker:variant:DesiredInstanceCount"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVariant:
    """A production or shadow variant, or a component (its slot, copies as count); None is known after deploy only.

    `maximum` is up to how many instances SageMaker itself adds for components.
    """

    name: str
    instance_type: str | None
    count: int
    maximum: int | None = None
    image: str | None = None
    archive: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEndpoint:
    """An endpoint and its config; `config_id` is the config's logical id, `excluded` what a deploy would reset."""

    name: str
    stack: str
    config_id: str
    variants: tuple[PlannedVariant, ...]
    retains: bool
    excluded: tuple[str, ...] = ()
    rolling: bool = False
    components: tuple[PlannedVariant, ...] = ()

    def variant(self, name: str) -> PlannedVariant | None:
        """Give a variant by name."""
        return next((variant for variant in self.variants if variant.name == name), None)

    def slot(self, name: str) -> PlannedVariant | None:
        """Give what serves a slot: a component where there are any, else a variant."""
        return next((held for held in self.components or self.variants if held.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTarget:
    """A scalable target, and the stack that makes it."""

    stack: str
    id: str
    resource: str
    dimension: str
    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A stage as it would be deployed."""

    stage: str
    stacks: tuple[PlannedStack, ...]
    endpoints: tuple[PlannedEndpoint, ...]
    targets: tuple[PlannedTarget, ...]
    images: tuple[str, ...]
    archives: tuple[str, ...]
    names: Mapping[tuple[str, str], Resource]

    @property
    def account(self) -> str:
        """The account of the stage: a stage file names one."""
        return self.stacks[0].account

    def stack(self, name: str) -> PlannedStack | None:
        """Give a stack by name."""
        return next((stack for stack in self.stacks if stack.name == name), None)

    def endpoint(self, name: str) -> PlannedEndpoint | None:
        """Give an endpoint by name."""
        return next((endpoint for endpoint in self.endpoints if endpoint.name == name), None)


def slot_of(component: str, endpoint: str) -> str:
    """Give the slot of an inference component `<endpoint>-<slot>`."""
    return component.removeprefix(f"{endpoint}-")


def read_planned(folder: Path, *, stage: str) -> Planned:
    """Read what `cdk synth` wrote for a stage.

    Raises:
        PreflightError: the folder holds no such thing.

    """
    stacks = read_stacks(folder)
    try:
        return planned_of(stacks, stage=stage)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PreflightError(
            f"{folder}: got no template of CloudFormation's ({type(error).__name__}: {error}); allowed what "
            f"cdk synth writes; run make synth STAGE={stage}"
        ) from error


def planned_of(stacks: Sequence[PlannedStack], *, stage: str) -> Planned:
    """Give what templates would make."""
    reader = _Reader(stacks)
    models = [model for stack in stacks for model in reader.models(stack).values()]
    return Planned(
        stage=stage,
        stacks=tuple(stacks),
        endpoints=tuple(endpoint for stack in stacks for endpoint in reader.endpoints(stack)),
        targets=tuple(target for stack in stacks for target in reader.targets(stack)),
        images=tuple(sorted({model.image for model in models if model.image is not None})),
        archives=tuple(sorted({model.archive for model in models if model.archive is not None})),
        names={key: resource for stack in stacks for key, resource in reader.names(stack)},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    image: str | None
    archive: str | None


class _Reader:
    def __init__(self, stacks: Sequence[PlannedStack]) -> None:
        self._resolver = Resolver(stacks)

    def models(self, stack: PlannedStack) -> dict[str, _Model]:
        return {model.id: self._model(stack, model) for model in stack.resources("AWS::SageMaker::Model")}

    def endpoints(self, stack: PlannedStack) -> Iterator[PlannedEndpoint]:
        configs = {config.id: config for config in stack.resources("AWS::SageMaker::EndpointConfig")}
        models = self.models(stack)
        for endpoint in stack.resources("AWS::SageMaker::Endpoint"):
            name = self._resolver.name_of(stack, endpoint)
            config = configs.get(referenced(endpoint.properties.get("EndpointConfigName")) or "")
            if name is not None and config is not None:
                yield self._endpoint(stack, name, endpoint.properties, config, models)

    def targets(self, stack: PlannedStack) -> Iterator[PlannedTarget]:
        for target in stack.resources("AWS::ApplicationAutoScaling::ScalableTarget"):
            resource = self._resolver.text(stack, target.properties["ResourceId"])
            if resource is not None:
                yield PlannedTarget(
                    stack=stack.name,
                    id=target.id,
                    resource=resource,
                    dimension=str(target.properties["ScalableDimension"]),
                    minimum=int(target.properties["MinCapacity"]),
                    maximum=int(target.properties["MaxCapacity"]),
                )

    def names(self, stack: PlannedStack) -> Iterator[tuple[tuple[str, str], Resource]]:
        for resource in stack.resources():
            name = self._resolver.name_of(stack, resource)
            if name is not None:
                yield (resource.kind, name), resource

    def _endpoint(
        self, stack: PlannedStack, name: str, properties: Mapping[str, Any], config: Resource, models: dict[str, _Model]
    ) -> PlannedEndpoint:
        held = config.properties
        variants = [*held.get("ProductionVariants", ()), *held.get("ShadowProductionVariants", ())]
        excluded = properties.get("ExcludeRetainedVariantProperties", ())
        return PlannedEndpoint(
            name=name,
            stack=stack.name,
            config_id=config.id,
            variants=tuple(self._variant(stack, variant, models) for variant in variants),
            retains=properties.get("RetainAllVariantProperties") is True,
            excluded=tuple(item["VariantPropertyType"] for item in excluded),
            rolling="RollingUpdatePolicy" in properties.get("DeploymentConfig", {}),
            components=tuple(self._components(stack, name, models)),
        )

    def _variant(self, stack: PlannedStack, variant: Mapping[str, Any], models: dict[str, _Model]) -> PlannedVariant:
        model = models.get(referenced(variant.get("ModelName")) or "")
        return PlannedVariant(
            name=str(variant["VariantName"]),
            instance_type=self._resolver.text(stack, variant.get("InstanceType")),
            count=int(variant.get("InitialInstanceCount", 1)),
            maximum=variant.get("ManagedInstanceScaling", {}).get("MaxInstanceCount"),
            image=model.image if model is not None else None,
            archive=model.archive if model is not None else None,
        )

    def _components(self, stack: PlannedStack, endpoint: str, models: dict[str, _Model]) -> Iterator[PlannedVariant]:
        for component in stack.resources("AWS::SageMaker::InferenceComponent"):
            name = self._resolver.name_of(stack, component)
            if name is None or self._resolver.text(stack, component.properties["EndpointName"]) != endpoint:
                continue
            model = models.get(referenced(component.properties.get("Specification", {}).get("ModelName")) or "")
            yield PlannedVariant(
                name=slot_of(name, endpoint),
                instance_type=None,
                count=int(component.properties.get("RuntimeConfig", {}).get("CopyCount", 1)),
                image=model.image if model is not None else None,
                archive=model.archive if model is not None else None,
            )

    def _model(self, stack: PlannedStack, model: Resource) -> _Model:
        containers = [model.properties.get("PrimaryContainer"), *model.properties.get("Containers", ())]
        container: Mapping[str, Any] = next((found for found in containers if found), {})
        source = container.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
        return _Model(
            image=self._resolver.text(stack, container.get("Image")),
            archive=self._resolver.text(stack, container.get("ModelDataUrl", source)),
        )
