"""What the environment says; everything missing at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from serving.spec import StageSpec
from serving.spec.bundle import SpecBundle, specs_of_environment

_NEEDS = ("STREAMHUB_TELEMETRY_BUCKET", "STREAMHUB_REGISTRY_BUCKET")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The environment of drift runs."""

    stage: StageSpec
    specs: SpecBundle
    telemetry_bucket: str
    registry_bucket: str


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read STREAMHUB_STAGE, _TELEMETRY_BUCKET, _REGISTRY_BUCKET and _SPECS_DIR.

    Raises:
        SpecError: a name is not set, or the specs cannot be read.
        ModelNotFoundError: the stage is unknown.

    """
    specs, stage = specs_of_environment(environ, needs=_NEEDS)
    return Settings(
        stage=stage,
        specs=specs,
        telemetry_bucket=environ["STREAMHUB_TELEMETRY_BUCKET"],
        registry_bucket=environ["STREAMHUB_REGISTRY_BUCKET"],
    )
