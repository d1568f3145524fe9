"""All stacks of one stage, wired."""

from __future__ import annotations

from pathlib import Path

from constructs import Construct

from serving.errors import Problem, SpecError
from serving.spec import HostingMode, ModelSpec, StageSpec
from serving.spec.load import Project
from stacks.api import ApiStack
from stacks.features import FeaturesStack
from stacks.model import ModelStack
from stacks.monitoring import MonitoringStack
from stacks.network import NetworkStack
from stacks.registry import RegistryStack
from stacks.release import ReleaseStack


def build_stage(app: Construct, *, project: Project, stage_name: str, lambda_folder: Path) -> None:
    """Create the stacks of a stage: one a model it names, and those that all models share.

    Raises:
        SpecError: the stage names a model that cannot be hosted yet, or the Lambda folders were not built.
        ModelNotFoundError: no such stage.

    """
    stage = project.stage(stage_name)
    models = {name: project.model(name) for name in sorted(stage.models)}
    refuse_unhosted(stage, models)
    store = RegistryStack(app, stage=stage)
    network = NetworkStack(app, stage=stage).network
    cache = FeaturesStack(app, stage=stage, network=network).cache
    endpoints = {
        name: ModelStack(
            app,
            stage=stage,
            model=model,
            locks=project.locks[name],
            network=network,
            registry=store.registry,
            telemetry=store.telemetry,
            key=store.key,
        ).endpoint
        for name, model in models.items()
    }
    api = ApiStack(
        app,
        stage=stage,
        network=network,
        cache=cache,
        endpoints=tuple(endpoints.values()),
        routes=sorted(model.api.route for model in project.models.values()),
        lambda_folder=lambda_folder,
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
    )
    MonitoringStack(
        app,
        stage=stage,
        models=models,
        endpoints=endpoints,
        api=api.api,
        functions=(api.predict, care.release, care.drift),
    )


def refuse_unhosted(stage: StageSpec, models: dict[str, ModelSpec]) -> None:
    """Refuse models whose hosting mode has no construct yet.

    Raises:
        SpecError: with one problem a model.

    """
    problems = tuple(
        Problem(
            f"stages/{stage.name}.toml",
            f"models.{name}",
            f"hosting mode {model.hosting.mode.value}",
            "mode realtime",
            "leave it out of the stage: components and async come in a later step (docs/roadmap.md)",
        )
        for name, model in models.items()
        if model.hosting.mode is not HostingMode.REALTIME
    )
    if problems:
        raise SpecError(problems)
