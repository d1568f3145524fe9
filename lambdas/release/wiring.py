"""Where the controller's ports get their AWS."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lambdas.release.controller import Controller
from lambdas.release.settings import Settings, read_settings
from serving.aws.clock import now
from serving.aws.endpoints import SageMakerEndpointControl
from serving.aws.evidence import EvidenceStore
from serving.aws.registry import S3ModelRegistry
from serving.aws.releases import DynamoReleaseStore, S3AuditLog
from serving.aws.session import client
from serving.ports import Clock


def controller(settings: Settings, *, clock: Clock = now) -> Controller:
    """Wire a controller to what the settings name."""
    table, s3 = client("dynamodb"), client("s3")
    return Controller(
        stage=settings.stage,
        models=settings.specs.models,
        store=DynamoReleaseStore(table, table=settings.state_table),
        evidence=EvidenceStore(table, table=settings.state_table),
        endpoints=SageMakerEndpointControl(client("sagemaker"), client("application-autoscaling")),
        audit=S3AuditLog(s3, bucket=settings.telemetry_bucket),
        registry=S3ModelRegistry(settings.registry_bucket, s3, clock=clock),
        clock=clock,
    )


def from_environment(environ: Mapping[str, str] = os.environ) -> tuple[Settings, Controller]:
    """Read the environment and wire a controller."""
    settings = read_settings(environ)
    return settings, controller(settings)
