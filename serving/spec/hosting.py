"""Where a model runs: the types of `[hosting]`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class HostingMode(StrEnum):
    """How SageMaker hosts the model; what AWS forbids between them is in `serving.spec.rules.hosting`."""

    REALTIME = "realtime"
    ASYNC = "async"
    COMPONENTS = "components"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec:
    """Target tracking on concurrent requests a model copy (10 s metric)."""

    target_concurrency: float
    scale_in_cooldown_s: int = 300
    scale_out_cooldown_s: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingSpec:
    """Where it runs; a stage may make it smaller."""

    mode: HostingMode = HostingMode.REALTIME
    instance_type: str
    min_count: int = 1
    max_count: int = 2
    scaling: ScalingSpec
    accelerators: int = 0
    startup_timeout_s: int = 600
    download_timeout_s: int = 600
