"""Where the page's parts get their AWS: plain boto3 at the gateway, so it shows what any client would see."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from local import state as states
from local.clock import Clock
from local.faults import Faults
from local.page.actions import Actions
from local.page.alarms import AlarmReader
from local.page.drift import DriftReader
from local.page.endpoints import EndpointReader, known_endpoints
from local.page.releases import ReleaseReader
from local.page.server import Page, read_assets
from local.page.state import Sources, StateReader
from local.page.targets import Targets
from local.page.traffic import Sender
from local.resource_types import Target as Aws
from local.resource_types import client as client_of
from local.settings import LocalSettings
from serving.aws.drift_reports import S3DriftReports
from serving.aws.evidence import EvidenceStore
from serving.aws.releases import DynamoReleaseStore
from serving.spec.load import load_project

_PATIENCE_S = 3.0
"""Twice that, and the page, which waits eight seconds, still learns which part could not be read."""


def create_app(settings: LocalSettings, *, stage: str, root: Path, clock: Clock, pace: float = 1.0) -> Page:
    """Give the page of one stack.

    Args:
        settings: those of all services.
        stage: the stage that is deployed there.
        root: the project folder, for specs and samples.
        clock: the stack's time.
        pace: how many times as fast as the machine's it goes.

    Raises:
        SpecError: the project cannot be read.

    """
    aws = Aws(endpoint_url=settings.s3_endpoint_url, region=settings.region)
    client = partial(client_of, target=aws, patience_s=_PATIENCE_S)
    project = load_project(root)
    in_stage = {name: project.models[name] for name in project.stage(stage).models}
    known = known_endpoints(project.stage(stage), project.models)
    table, name = client("dynamodb"), f"streamhub-{stage}-state"
    faults = Faults(settings.state_dir)
    targets = Targets(
        models=project.models,
        known=known,
        folder=root / "models",
        aws_url=settings.s3_endpoint_url,
        api_url=_api_url(settings.state_dir.parent),
    )
    bucket = f"streamhub-{stage}-telemetry-{settings.account}"
    reader = StateReader(
        Sources(
            endpoints=EndpointReader(
                sagemaker=client("sagemaker"), cloudwatch=client("cloudwatch"), known=known, pace=pace
            ),
            releases=ReleaseReader(
                store=DynamoReleaseStore(table, table=name),
                evidence=EvidenceStore(table, table=name),
                models=in_stage,
                stage=stage,
            ),
            drift=DriftReader(S3DriftReports(client("s3"), bucket=bucket), in_stage),
            alarms=AlarmReader(client("cloudwatch")),
            faults=faults,
            targets=targets,
        ),
        stage=stage,
        now=lambda: datetime.fromtimestamp(clock.now(), UTC),
        monotonic_s=time.monotonic,
    )
    actions = Actions(faults=faults, sender=Sender(targets), changed=reader.changed)
    return Page(assets=read_assets(), read=reader.read, actions=actions.by_path())


def _api_url(stack: Path) -> Callable[[], str]:
    """Say where the prediction API of the stack in that folder answers, "" before it does."""

    def find() -> str:
        state = states.read(stack)
        return f"http://127.0.0.1:{state.services['api'].port}" if state is not None and state.answers("api") else ""

    return find
