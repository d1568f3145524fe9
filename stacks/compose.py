"""All stacks of one stage, wired."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from constructs import Construct

from serving.spec import HostingMode, ModelSpec, in_stage
from serving.spec.load import Project
from stacks.api import ApiStack
from stacks.features import FeaturesStack
from stacks.hosting import Ground
from stacks.model import ModelStack
from stacks.monitoring import MonitoringStack
from stacks.network import NetworkStack
from stacks.registry import RegistryStack
from stacks.release import ReleaseStack

_LONGEST_ANSWER_MS = 10_000  # of a stage without models: the function's own timeout


def build_stage(app: Construct, *, project: Project, stage_name: str, lambda_folder: Path) -> None:
    """Create the stacks of a stage: one a model it names, and those that all models share.

    Raises:
        SpecError: the region has no images, or the Lambda folders were not built.
        ModelNotFoundError: no such stage.

    """
    stage = project.stage(stage_name)
    models = {name: project.model(name) for name in sorted(stage.models)}
    deployed = [in_stage(model, stage.models[name]) for name, model in models.items()]
    store = RegistryStack(app, stage=stage, answer_prefixes=answer_prefixes(deployed))
    network = NetworkStack(app, stage=stage, key=store.key).network
    cache = FeaturesStack(app, stage=stage, network=network, key=store.key).cache
    ground = Ground(stage=stage, network=network, registry=store.registry, telemetry=store.telemetry, key=store.key)
    stacks = {
        name: ModelStack(app, model=model, locks=project.locks[name], ground=ground) for name, model in models.items()
    }
    # traffic, releases and drift are of slots: the API calls no other mode yet (docs/roadmap.md)
    endpoints = {name: stack.endpoint for name, stack in stacks.items() if stack.endpoint is not None}
    api = ApiStack(
        app,
        stage=stage,
        network=network,
        cache=cache,
        endpoints=tuple(endpoints.values()),
        routes=sorted(model.api.route for model in project.models.values()),
        lambda_folder=lambda_folder,
        key=store.key,
    )
    care = ReleaseStack(
        app,
        stage=stage,
        models=models,
        endpoints=endpoints,
        registry=store.registry,
        telemetry=store.telemetry,
        state=api.state,
        lambda_folder=lambda_folder,
        key=store.key,
    )
    MonitoringStack(
        app,
        stage=stage,
        models=models,
        hosted={name: stack.hosted for name, stack in stacks.items()},
        door=api.door,
        functions=(*api.functions, care.release, care.drift),
        deadline_ms=max((model.budget.deadline_ms for model in deployed), default=_LONGEST_ANSWER_MS),
    )


def answer_prefixes(deployed: Sequence[ModelSpec]) -> list[str]:
    """Give where async endpoints of these models write their answers in the telemetry bucket."""
    settings = [model.hosting.asynchronous for model in deployed if model.hosting.mode is HostingMode.ASYNC]
    settings += [model.hosting.batch.asynchronous for model in deployed if model.hosting.batch is not None]
    return sorted({one.output_prefix for one in settings})
