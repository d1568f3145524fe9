"""The types of `models/<name>/model.toml`: one file says all there is to say of a model.

Keys in the file are the field names below, section by section; unknown keys are errors.
`serving.spec.load` reads the file, `serving.spec.rules` holds the rules that span fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from serving.spec.hosting import HostingSpec
from serving.spec.quantisation import QuantisationSpec
from serving.spec.runtime import Runtime
from serving.spec.tensors import TensorSpec


class Fallback(StrEnum):
    """What the API answers when the endpoint cannot in time; `none` is an error to the client."""

    NONE = "none"
    REVIEW = "review"
    POPULARITY = "popularity"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSpec:
    """One trained version: where its weights are and what was measured of it (paths from the model folder).

    `optimise` and `quantisation` change the graph when it is packaged; the weights in the folder stay as they were
    trained.
    """

    weights: str
    metrics: str = ""
    baseline: str = ""
    optimise: bool = False
    quantisation: QuantisationSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """What the service promises at the endpoint."""

    peak_qps: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSpec:
    """The public route: `unit` is the request field that is hashed to a variant."""

    route: str
    unit: str
    labels: tuple[str, ...] = ()
    block_above: dict[str, float] = field(default_factory=dict)
    review_above: dict[str, float] = field(default_factory=dict)
    fallback: Fallback = Fallback.NONE
    max_candidates: int = 0
    image_input: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureViewSpec:
    """One packed float32 row an entity; `defaults` stands in when the row is missing or older than `max_age_s`."""

    view: str
    entity: str
    fields: tuple[str, ...]
    max_age_s: float
    defaults: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailSpec:
    """What a challenger may not make worse: relative margins against the concurrent control."""

    p99_margin: float = 0.10
    max_error_rate: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSpec:
    """When a new version is better (docs/releases.md): uplift is relative, ramp is the challenger's share."""

    metric: Literal["ctr", "none"] = "ctr"
    min_uplift: float = 0.02
    strict: bool = False
    ramp: tuple[float, ...] = (0.1, 0.5)
    min_stage_hours: float = 24.0
    min_impressions: int = 10_000
    min_clicks: int = 1_000
    expires_days: float = 14.0
    guardrails: GuardrailSpec = field(default_factory=GuardrailSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftSpec:
    """Which inputs and outputs are watched, and when a difference counts."""

    features: tuple[str, ...] = ()
    capture_percent: int = 100
    window_s: int = 3600
    min_rows: int = 500
    fdr: float = 0.01
    warn_size: float = 0.10
    alarm_size: float = 0.25
    alarm_windows: int = 2
    of_windows: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpec:
    """How the p99 splits, and the hard deadline after which a request gets its fallback; milliseconds."""

    feature_read_ms: float = 0.0
    invoke_ms: float
    overhead_ms: float
    deadline_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """All that `models/<name>/model.toml` says."""

    name: str
    owner: str
    description: str
    licence: str
    runtime: Runtime
    slo: Slo
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    api: ApiSpec
    hosting: HostingSpec
    budget: BudgetSpec
    versions: dict[str, VersionSpec]
    release: ReleaseSpec = field(default_factory=ReleaseSpec)
    drift: DriftSpec = field(default_factory=DriftSpec)
    features: tuple[FeatureViewSpec, ...] = ()

    @property
    def slug(self) -> str:
        """The name in the alphabet of SageMaker: no underscores."""
        return self.name.replace("_", "-")
