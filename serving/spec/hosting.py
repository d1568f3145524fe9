"""Where a model runs: the types of `[hosting]`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from serving.spec.scaling import ScalingSpec


class HostingMode(StrEnum):
    """How SageMaker hosts the model; what AWS forbids between them is in `serving.spec.rules.hosting`."""

    REALTIME = "realtime"
    ASYNC = "async"
    COMPONENTS = "components"


class Strategy(StrEnum):
    """How an update moves traffic to the new fleet; which mode takes which is in `serving.spec.rules.deployment`."""

    ALL_AT_ONCE = "all-at-once"
    CANARY = "canary"
    LINEAR = "linear"
    ROLLING = "rolling"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSpec:
    """An update of the endpoint: `step_percent` of the capacity moves, `wait_s` is watched, then the next step.

    `step_percent` is the canary, the linear step or the rolling batch, by `strategy`; `termination_wait_s` keeps the
    old fleet of a blue/green update.
    """

    strategy: Strategy = Strategy.CANARY
    step_percent: int = 25
    wait_s: int = 600
    termination_wait_s: int = 300
    max_duration_s: int = 14_400


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncSpec:
    """Settings of an async endpoint: answers go to S3 under `output_prefix`; `notify` adds SNS topics for both ends."""

    max_concurrent_invocations: int = 4
    output_prefix: str = "async"
    notify: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """An async endpoint beside a real-time one, for batch scoring with the production version; scales from zero.

    A stage deploys it by naming it (`[models.NAME.batch]`); None takes the real-time endpoint's instance type.
    """

    instance_type: str | None = None
    min_count: int = 0
    max_count: int = 1
    scaling: ScalingSpec
    asynchronous: AsyncSpec = field(default_factory=AsyncSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSpec:
    """What one copy of an inference component takes of an instance, and how many copies components a and b may have."""

    accelerators: int
    memory_mib: int
    cpus: float | None = None
    min_copies: int = 1
    max_copies: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HostingSpec:
    """Where it runs; a stage may make it smaller."""

    mode: HostingMode = HostingMode.REALTIME
    instance_type: str
    min_count: int = 1
    max_count: int = 2
    scaling: ScalingSpec
    component: ComponentSpec | None = None
    asynchronous: AsyncSpec = field(default_factory=AsyncSpec)
    batch: BatchSpec | None = None
    deployment: DeploymentSpec = field(default_factory=DeploymentSpec)
    volume_gb: int | None = None
    volume_key: Literal["where-possible", "required"] = "where-possible"
    startup_timeout_s: int = 600
    download_timeout_s: int = 600
