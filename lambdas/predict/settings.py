"""What the environment says; everything missing or wrong at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from serving.aws.features import features_url
from serving.spec import StageSpec
from serving.spec.bundle import SpecBundle, specs_of_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The environment of the API; `support_url` "" means that no generator is wired."""

    stage: StageSpec
    specs: SpecBundle
    state_table: str
    features_url: str
    support_url: str


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read STREAMHUB_STAGE, _STATE_TABLE, _FEATURES_URL (or _LOCAL_FEATURES_URL), _SPECS_DIR and _SUPPORT_URL.

    Raises:
        SpecError: a name is not set, or the specs cannot be read.
        FeatureStoreError: the cache's address is missing or not allowed.
        ModelNotFoundError: the stage is unknown.

    """
    specs, stage = specs_of_environment(environ, needs=("STREAMHUB_STATE_TABLE",))
    return Settings(
        stage=stage,
        specs=specs,
        state_table=environ["STREAMHUB_STATE_TABLE"],
        features_url=features_url(environ),
        support_url=environ.get("STREAMHUB_SUPPORT_URL", "").rstrip("/"),
    )
