"""How traffic moves to a new fleet: the steps of a DeploymentConfig, in shares and seconds; pure.

Sources: SageMaker API reference, BlueGreenUpdatePolicy, TrafficRoutingConfig, RollingUpdatePolicy; guide, *Deployment
guardrails* (canary, linear, rolling, exclusions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local.aws_json import ValidationError

_DEFAULT_TIMEOUT_S = 28_800.0
"""MaximumExecutionTimeoutInSeconds ends at 28,800; the reference gives no default."""
_MOST_CANARY = 0.5
_LINEAR = (0.1, 0.5)
_BATCH = (0.05, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The new fleet takes `share` of the traffic (0 to 1) and bakes for `wait_s` before the next step."""

    share: float
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps to all of the traffic, how long the old fleet lives on after them, and what takes them back."""

    steps: tuple[Step, ...]
    termination_wait_s: float = 0.0
    timeout_s: float = _DEFAULT_TIMEOUT_S
    alarms: tuple[str, ...] = ()


ALL_AT_ONCE = Plan(steps=(Step(share=1.0, wait_s=0.0),))


def plan_of(config: Mapping[str, Any] | None, *, instances: int, variants: int) -> Plan:
    """Give the plan of a DeploymentConfig; none is blue/green all at once.

    Args:
        config: a DeploymentConfig as the API takes it.
        instances: of the new fleet, which sizes in instances are of.
        variants: of the new config.

    Raises:
        ValidationError: the policy is not one that SageMaker takes.

    """
    if not config:
        return ALL_AT_ONCE
    alarms = _alarms(config)
    policies = [name for name in ("BlueGreenUpdatePolicy", "RollingUpdatePolicy") if name in config]
    if len(policies) > 1:
        raise ValidationError("DeploymentConfig: got BlueGreenUpdatePolicy and RollingUpdatePolicy; give one of them")
    if not policies:
        return Plan(steps=ALL_AT_ONCE.steps, alarms=alarms)
    policy = config[policies[0]]
    if policies == ["RollingUpdatePolicy"]:
        if variants > 1:
            raise ValidationError(f"RollingUpdatePolicy: got {variants} variants; allowed: one; use blue/green")
        steps, termination_s = _rolling(policy, instances), 0.0
    else:
        steps = _blue_green(policy["TrafficRoutingConfiguration"], instances)
        termination_s = float(policy.get("TerminationWaitInSeconds", 0))
    timeout_s = float(policy.get("MaximumExecutionTimeoutInSeconds", _DEFAULT_TIMEOUT_S))
    waits_s = sum(step.wait_s for step in steps) + termination_s
    if waits_s >= timeout_s:
        raise ValidationError(
            f"MaximumExecutionTimeoutInSeconds: got {timeout_s:g}; allowed: more than all waits, {waits_s:g} s"
        )
    return Plan(steps=tuple(steps), termination_wait_s=termination_s, timeout_s=timeout_s, alarms=alarms)


def component_plan(config: Mapping[str, Any] | None, *, copies: int) -> Plan:
    """Give the plan of an inference component's DeploymentConfig, in batches of whole copies; none is all at once.

    Args:
        config: an InferenceComponentDeploymentConfig as the API takes it.
        copies: of the component.

    Raises:
        ValidationError: a batch is not 5 to 50 percent of the copies, and not one copy either.

    """
    if not config:
        return ALL_AT_ONCE
    policy, whole = config["RollingUpdatePolicy"], max(1, copies)
    size = policy["MaximumBatchSize"]
    if size != {"Type": "COPY_COUNT", "Value": 1}:  # which is more than half of one copy, and all that there is
        _share(policy, "MaximumBatchSize", whole, _BATCH)
    in_percent = size["Type"] == "CAPACITY_PERCENT"
    batch = max(1, whole * size["Value"] // 100) if in_percent else size["Value"]
    wait_s = float(policy["WaitIntervalInSeconds"])
    moved = (min(whole, count) for count in range(batch, whole + batch, batch))
    return Plan(
        steps=tuple(Step(share=count / whole, wait_s=wait_s) for count in moved),
        timeout_s=float(policy.get("MaximumExecutionTimeoutInSeconds", _DEFAULT_TIMEOUT_S)),
        alarms=_alarms(config),
    )


def plan_of_document(document: Mapping[str, Any]) -> Plan:
    """Give the plan that was written as JSON."""
    steps = tuple(Step(**step) for step in document["steps"])
    return Plan(**{**document, "steps": steps, "alarms": tuple(document["alarms"])})


def paced(plan: Plan, pace: float) -> Plan:
    """Give the plan with every wait `pace` times as short."""
    steps = tuple(Step(share=step.share, wait_s=step.wait_s / pace) for step in plan.steps)
    return Plan(
        steps=steps,
        termination_wait_s=plan.termination_wait_s / pace,
        timeout_s=plan.timeout_s,
        alarms=plan.alarms,
    )


def _alarms(config: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(alarm["AlarmName"] for alarm in config.get("AutoRollbackConfiguration", {}).get("Alarms", ()))


def _blue_green(routing: Mapping[str, Any], instances: int) -> Sequence[Step]:
    kind, wait_s = routing["Type"], float(routing["WaitIntervalInSeconds"])
    if kind == "CANARY":
        share = _share(routing, "CanarySize", instances, (0.0, _MOST_CANARY))
        return (Step(share=share, wait_s=wait_s), Step(share=1.0, wait_s=0.0))
    if kind == "LINEAR":
        return _even(_share(routing, "LinearStepSize", instances, _LINEAR), wait_s, last_wait_s=0.0)
    return ALL_AT_ONCE.steps


def _rolling(policy: Mapping[str, Any], instances: int) -> Sequence[Step]:
    # each batch bakes, the last one too
    wait_s = float(policy["WaitIntervalInSeconds"])
    return _even(_share(policy, "MaximumBatchSize", instances, _BATCH), wait_s, last_wait_s=wait_s)


def _even(share: float, wait_s: float, *, last_wait_s: float) -> Sequence[Step]:
    shares: list[float] = []
    while (len(shares) + 1) * share < 1 - 1e-9:
        shares.append((len(shares) + 1) * share)
    return (*(Step(share=part, wait_s=wait_s) for part in shares), Step(share=1.0, wait_s=last_wait_s))


def _share(holder: Mapping[str, Any], name: str, instances: int, allowed: tuple[float, float]) -> float:
    size = holder.get(name)
    if size is None:
        raise ValidationError(f"{name}: got none; it is required by this type of deployment")
    of = 100 if size["Type"] == "CAPACITY_PERCENT" else max(1, instances)
    share = float(size["Value"]) / of
    least, most = allowed
    if not least <= share <= most:
        raise ValidationError(
            f"{name}: got {size['Value']} of {of}; allowed: {least:.0%} to {most:.0%} of the variant's instances"
        )
    return share
