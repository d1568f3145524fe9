"""What Application Auto Scaling decides from numbers: pure.

Sources: Application Auto Scaling guide, *How target tracking works* (proportional, slower to scale in, largest capacity
of several policies wins), *How step scaling works* (intervals relative to the threshold), API reference
(RegisterScalableTarget, TargetTrackingScalingPolicyConfiguration, StepScalingPolicyConfiguration).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_DEFAULT_COOLDOWN_S = 300.0
_OUT_PERIODS, _IN_PERIODS = 3, 15
"""Alarms of target tracking: 3 periods above the target, 15 below 90 % of it (what the service creates by itself)."""
_IN_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a scalable target allows, and what it may not do for now."""

    least: int
    most: int
    out_suspended: bool = False
    in_suspended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The capacity that one policy wants, why, and how long it waits after the last change in that direction."""

    policy: str
    capacity: int
    cause: str
    out_cooldown_s: float = _DEFAULT_COOLDOWN_S
    in_cooldown_s: float = _DEFAULT_COOLDOWN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new capacity and why."""

    capacity: int
    cause: str


def tracked(name: str, config: Mapping[str, Any], values: Sequence[float], *, capacity: int) -> Wish | None:
    """Give what a target tracking policy wants.

    Args:
        name: of the policy.
        config: its TargetTrackingScalingPolicyConfiguration.
        values: the metric's last periods, newest last; one that has no datapoint is left out.
        capacity: instances or copies that there are now.

    """
    target = float(config["TargetValue"])
    cooldowns = {
        "out_cooldown_s": float(config.get("ScaleOutCooldown", _DEFAULT_COOLDOWN_S)),
        "in_cooldown_s": float(config.get("ScaleInCooldown", _DEFAULT_COOLDOWN_S)),
    }
    newest = values[-_OUT_PERIODS:]
    if len(newest) == _OUT_PERIODS and min(newest) > target:
        wanted = math.ceil(max(1, capacity) * newest[-1] / target)
        return Wish(policy=name, capacity=wanted, cause=f"{newest[-1]:g} above {target:g}", **cooldowns)
    oldest = values[-_IN_PERIODS:]
    if len(oldest) == _IN_PERIODS and max(oldest) < _IN_SHARE * target and not config.get("DisableScaleIn", False):
        # never below what the busiest of those periods needs
        wanted = min(capacity, math.ceil(capacity * max(oldest) / target))
        return Wish(policy=name, capacity=wanted, cause=f"{max(oldest):g} below {target:g}", **cooldowns)
    return None


def stepped(name: str, config: Mapping[str, Any], breach: float, *, capacity: int) -> Wish | None:
    """Give what a step policy wants when its alarm stands `breach` above (or below, negative) its threshold."""
    step = next((step for step in config.get("StepAdjustments", ()) if _holds(step, breach)), None)
    if step is None:
        return None
    amount = step["ScalingAdjustment"]
    kind = config.get("AdjustmentType", "ChangeInCapacity")
    if kind == "ExactCapacity":
        wanted = amount
    elif kind == "PercentChangeInCapacity":
        moved = capacity * amount / 100
        # rounded towards zero, but by one at least (guide, *Scaling adjustment types*)
        whole = int(moved) or int(math.copysign(1, moved)) * bool(moved)
        least = config.get("MinAdjustmentMagnitude", 0)
        wanted = capacity + (whole if abs(whole) >= least else int(math.copysign(least, amount)))
    else:
        wanted = capacity + amount
    cooldown_s = float(config.get("Cooldown", _DEFAULT_COOLDOWN_S))
    return Wish(policy=name, capacity=wanted, cause="alarm", out_cooldown_s=cooldown_s, in_cooldown_s=cooldown_s)


def _holds(step: Mapping[str, Any], breach: float) -> bool:
    lower = step.get("MetricIntervalLowerBound", -math.inf)
    upper = step.get("MetricIntervalUpperBound", math.inf)
    # an edge belongs to the step that is farther from the threshold
    return bool(lower <= breach < upper if breach >= 0 else lower < breach <= upper)


def decide(
    bounds: Bounds, wishes: Iterable[Wish], *, capacity: int, since_out_s: float, since_in_s: float
) -> Change | None:
    """Give the change that follows from all policies, or None.

    Args:
        bounds: capacity outside of them is moved to the nearer one, whatever the policies want.
        wishes: of each policy that wants something; the largest wins.
        capacity: what there is now.
        since_out_s: seconds since the last scale-out, infinite for never.
        since_in_s: the same of the last scale-in.

    """
    inside = min(max(capacity, bounds.least), bounds.most)
    if inside != capacity:
        return Change(capacity=inside, cause=f"{capacity} is outside {bounds.least} to {bounds.most}")
    chosen = max(wishes, key=lambda wish: wish.capacity, default=None)
    if chosen is None:
        return None
    wanted = min(max(chosen.capacity, bounds.least), bounds.most)
    grows, shrinks = wanted > capacity, wanted < capacity
    if grows and (bounds.out_suspended or since_out_s < chosen.out_cooldown_s):
        return None
    # a scale-in waits for both cooldowns: it must not undo what has just been added
    if shrinks and (bounds.in_suspended or min(since_out_s, since_in_s) < chosen.in_cooldown_s):
        return None
    return Change(capacity=wanted, cause=f"policy {chosen.policy}: {chosen.cause}") if grows or shrinks else None
