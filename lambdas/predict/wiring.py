"""Builds the service from settings: the only place that knows which adapter stands behind which port."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

from lambdas.predict.recorder import Recorder
from lambdas.predict.routes import SUPPORT, Routes
from lambdas.predict.service import Predictions, Target
from lambdas.predict.settings import Settings
from serving.aws import session
from serving.aws.cache_login import CacheLogin
from serving.aws.evidence import DynamoRecordSink
from serving.aws.features import ValkeyFeatures, connect
from serving.aws.invoker import SageMakerInvoker
from serving.aws.traffic import DynamoTrafficSource
from serving.errors import NotAvailableError
from serving.features.assembly import Layout
from serving.prediction.budget import budget_of
from serving.spec import ModelSpec, SlotVersions, StageModel, StageSpec, endpoint_name

_CACHE_S = 0.5
_RECORD_READ_S = 1.0
_RECORD_WRITE_S = 5.0
_RECORD_WRITES = 4


def build(settings: Settings, *, write_s: float = _RECORD_WRITE_S, writes: int = _RECORD_WRITES) -> Routes:
    """Make the routes over AWS (or what stands in for it at `AWS_ENDPOINT_URL`); nothing is called yet.

    Args:
        settings: of the environment.
        write_s: how long one write of exposures or an outcome may take.
        writes: how often it is tried altogether.

    """
    targets = targets_of(settings)
    records = session.client("dynamodb", read_timeout_s=write_s, connect_timeout_s=write_s, attempts=writes)
    service = Predictions(
        targets=targets,
        invoker=SageMakerInvoker(usual_ms=tuple({target.budget.invoke_ms for target in targets.values()})),
        features=_features(settings),
        traffic=DynamoTrafficSource(
            session.client("dynamodb", read_timeout_s=_RECORD_READ_S, connect_timeout_s=_RECORD_READ_S, attempts=1),
            table=settings.state_table,
        ),
        recorder=Recorder(DynamoRecordSink(records, table=settings.state_table)),
        clock=lambda: datetime.now(UTC),
        monotonic=time.monotonic,
        random=os.urandom,
    )
    return Routes(service, stage=settings.stage.name)


def targets_of(settings: Settings) -> dict[str, Target]:
    """Give the models of the stage by route; the generator is no SageMaker call, so it is not among them."""
    return {
        spec.api.route: _target(settings.stage, spec, settings.stage.models[name])
        for name, spec in settings.specs.models.items()
        if name in settings.stage.models and spec.runtime.kind == "triton"
    }


def generator_target(settings: Settings) -> Target:
    """Give the generator: in a stage without it, the newest version that its spec names."""
    spec = next((spec for spec in settings.specs.models.values() if spec.api.route == SUPPORT), None)
    if spec is None:
        raise NotAvailableError(
            f"STREAMHUB_SUPPORT_URL: got a generator, but no model has route {SUPPORT}; add its spec or unset it"
        )
    newest = list(spec.versions)[-1]
    entry = settings.stage.models.get(spec.name, StageModel(versions=SlotVersions(a=newest, b=newest)))
    return _target(settings.stage, spec, entry)


def _target(stage: StageSpec, spec: ModelSpec, entry: StageModel) -> Target:
    return Target(
        spec=spec,
        endpoint=endpoint_name(stage.name, spec.slug),
        versions={"a": entry.versions.a, "b": entry.versions.b},
        budget=budget_of(spec.budget, deadline_ms=entry.deadline_ms),
        layout=Layout.of(spec),
    )


def _features(settings: Settings) -> ValkeyFeatures:
    if settings.features_url.startswith("valkey://"):
        return ValkeyFeatures(connect(settings.features_url, timeout_s=_CACHE_S))
    serverless = settings.stage.cache == "serverless"
    name = f"streamhub-{settings.stage.name}-features"
    login = CacheLogin(cache=name, user=name, serverless=serverless)
    cache = connect(settings.features_url, login=login, timeout_s=_CACHE_S)
    return ValkeyFeatures(cache, one_command=not serverless)
