"""Where a drift run's ports get their AWS."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from lambdas.drift.run import BaselineSource, Drift
from lambdas.drift.settings import Settings, read_settings
from serving.aws.captures import S3Captures
from serving.aws.clock import now
from serving.aws.drift_reports import S3DriftReports
from serving.aws.metrics import CloudWatchMetrics
from serving.aws.registry import S3ModelRegistry
from serving.aws.session import client
from serving.ports import ModelRegistry
from serving.telemetry.baseline import Baseline, baseline_from_dict

CAPTURE_DELAY = timedelta(minutes=5)
"""How long SageMaker may take until a request lies in S3; a window is read that much after its end."""


def last_window_end(at: datetime, window_s: int) -> datetime:
    """Give the end of the last window whose captures are all there; windows are aligned to midnight."""
    settled = int((at - CAPTURE_DELAY).timestamp())
    return datetime.fromtimestamp(settled - settled % window_s, tz=UTC)


def drift(settings: Settings) -> Drift:
    """Wire drift runs to what the settings name."""
    s3 = client("s3")
    return Drift(
        stage=settings.stage,
        models=settings.specs.models,
        captures=S3Captures(s3, bucket=settings.telemetry_bucket),
        baselines=registry_baselines(S3ModelRegistry(settings.registry_bucket, s3, clock=now)),
        reports=S3DriftReports(s3, bucket=settings.telemetry_bucket),
        metrics=CloudWatchMetrics(client("cloudwatch")),
    )


def registry_baselines(registry: ModelRegistry) -> BaselineSource:
    """Take baselines from the manifests of registered versions; one of no feature where a manifest has none."""

    def baseline(model: str, version: str) -> Baseline:
        document = registry.manifest(model, version).baseline
        return baseline_from_dict(document) if document else Baseline(rows=0, features=())

    return baseline


def from_environment(environ: Mapping[str, str] = os.environ) -> tuple[Settings, Drift]:
    """Read the environment and wire drift runs."""
    settings = read_settings(environ)
    return settings, drift(settings)
