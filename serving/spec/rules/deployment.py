"""Rules on updates of a live endpoint: which strategy a mode takes, and the ranges of its steps and waits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from serving.spec.hosting import DeploymentSpec, HostingMode, Strategy
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule

_EXCLUSIONS = "AWS deployment-guardrails-exclusions"
_BLUE_GREEN_API = "AWS API_BlueGreenUpdatePolicy"
_ROLLING_API = "AWS API_RollingUpdatePolicy"
_STEP_PERCENT: Mapping[Strategy, tuple[int, int]] = {
    Strategy.CANARY: (1, 50),
    Strategy.LINEAR: (10, 50),
    Strategy.ROLLING: (5, 50),
}
_MAX_WAIT_S = 3600
_DURATION_S = (600, 28_800)


def strategy_fits_the_mode(model: ModelSpec) -> Iterator[Finding]:
    """Rolling is not for two variants; inference components roll, and do nothing else."""
    mode, strategy = model.hosting.mode, model.hosting.deployment.strategy
    if mode is HostingMode.REALTIME and strategy is Strategy.ROLLING:
        allowed = "canary, linear or all-at-once for the two variants of mode realtime"
        yield "hosting.deployment.strategy", "rolling", allowed, "choose canary", _EXCLUSIONS
    if mode is HostingMode.COMPONENTS and strategy is not Strategy.ROLLING:
        source = "AWS API_InferenceComponentDeploymentConfig"
        yield "hosting.deployment.strategy", strategy.value, "rolling in mode components", "choose rolling", source


def step_is_in_range(model: ModelSpec) -> Iterator[Finding]:
    """A canary is at most half of the capacity, a linear step 10 to 50%, a rolling batch 5 to 50%."""
    deployment = model.hosting.deployment
    if deployment.strategy is Strategy.ALL_AT_ONCE:
        return
    lowest, highest = _STEP_PERCENT[deployment.strategy]
    if not lowest <= deployment.step_percent <= highest:
        allowed = f"{lowest} to {highest} for {deployment.strategy}"
        source = _ROLLING_API if deployment.strategy is Strategy.ROLLING else _BLUE_GREEN_API
        yield "hosting.deployment.step_percent", str(deployment.step_percent), allowed, "correct it", source


def waits_are_in_range(model: ModelSpec) -> Iterator[Finding]:
    """Waits last at most an hour, the whole update 10 minutes to 8 hours and longer than its waits."""
    deployment = model.hosting.deployment
    for key in ("wait_s", "termination_wait_s"):
        value = getattr(deployment, key)
        if not 0 <= value <= _MAX_WAIT_S:
            yield f"hosting.deployment.{key}", str(value), f"0 to {_MAX_WAIT_S}", "correct it", _BLUE_GREEN_API
    lowest, highest = _DURATION_S
    lowest = max(lowest, total_wait_s(deployment) + 1)
    if not lowest <= deployment.max_duration_s <= highest:
        allowed = f"{lowest} (more than all waits) to {highest}"
        fix = "raise it, or shorten the waits"
        yield "hosting.deployment.max_duration_s", str(deployment.max_duration_s), allowed, fix, _BLUE_GREEN_API


def total_wait_s(deployment: DeploymentSpec) -> int:
    """Give how long an update waits in all: one canary or a wait for each step, then the old fleet's end."""
    match deployment.strategy:
        case Strategy.ALL_AT_ONCE | Strategy.CANARY:
            return deployment.wait_s + deployment.termination_wait_s
        case Strategy.LINEAR:
            return math.ceil(100 / max(1, deployment.step_percent)) * deployment.wait_s + deployment.termination_wait_s
        case Strategy.ROLLING:
            return math.ceil(100 / max(1, deployment.step_percent)) * deployment.wait_s


RULES: tuple[Rule, ...] = (
    strategy_fits_the_mode,
    step_is_in_range,
    waits_are_in_range,
)
