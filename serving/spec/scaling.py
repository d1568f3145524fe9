"""How many copies a model has: the types of `[hosting.scaling]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomMetricSpec:
    """A metric of yours, such as a queue depth, by EndpointName and VariantName, or by InferenceComponentName.

    `target` is its value for each instance; the namespace is the publisher's own, never one of `AWS/`.
    """

    namespace: str
    name: str
    target: float
    statistic: Literal["Average", "Maximum", "Sum"] = "Average"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSpec:
    """One step: from `lower` to `upper` above the threshold (None: without end), `add` instances or copies."""

    lower: float
    upper: float | None = None
    add: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPolicySpec:
    """Jumps for a sudden load, beside the tracking: an alarm above `threshold` for `periods` of `period_s` seconds."""

    metric: Literal["concurrency", "invocations", "gpu", "custom"]
    threshold: float
    steps: tuple[StepSpec, ...]
    period_s: int = 60
    periods: int = 2
    cooldown_s: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSpec:
    """A floor for a known peak: at `start` the minimum is `min_count`, at `end` it is the usual one again.

    `start` and `end` are expressions of Application Auto Scaling, `cron(…)` or `at(…)`, in `timezone` (IANA name).
    """

    name: str
    start: str
    end: str
    min_count: int
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec:
    """Each target that is given is one target tracking policy; where several disagree the largest capacity wins.

    Per instance, or per copy of a component: `target_concurrency` requests at once (10 s metric),
    `target_invocations` requests a minute, `target_gpu_percent` of all GPUs, `target_backlog` waiting (async only).
    """

    target_concurrency: float | None = None
    target_invocations: float | None = None
    target_gpu_percent: float | None = None
    target_backlog: float | None = None
    custom: CustomMetricSpec | None = None
    step: StepPolicySpec | None = None
    schedules: tuple[ScheduleSpec, ...] = ()
    scale_in_cooldown_s: int = 300
    scale_out_cooldown_s: int = 60
