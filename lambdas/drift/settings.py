"""What the environment says; everything missing at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from serving.errors import Problem, SpecError
from serving.spec import StageSpec
from serving.spec.bundle import SpecBundle, find_bundle

CODE_DIR = Path(__file__).resolve().parents[2]
"""Where a built function folder has specs.json; on a laptop the project itself."""

_NAMES = ("STREAMHUB_STAGE", "STREAMHUB_TELEMETRY_BUCKET", "STREAMHUB_REGISTRY_BUCKET")


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
    missing = [name for name in _NAMES if not environ.get(name)]
    if missing:
        raise SpecError(tuple(Problem("environment", name, "nothing", "a value", f"set {name}") for name in missing))
    specs = find_bundle(environ.get("STREAMHUB_SPECS_DIR"), code_dir=CODE_DIR, project_dir=Path())
    return Settings(
        stage=specs.stage(environ["STREAMHUB_STAGE"]),
        specs=specs,
        telemetry_bucket=environ["STREAMHUB_TELEMETRY_BUCKET"],
        registry_bucket=environ["STREAMHUB_REGISTRY_BUCKET"],
    )
