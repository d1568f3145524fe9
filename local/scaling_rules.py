"""What Application Auto Scaling decides from numbers: pure.

Sources: Application Auto Scaling guide, *How target tracking works* (proportional, slower to scale in, largest capacity
of several policies wins; cooldowns), *How step scaling works* (intervals relative to the threshold), API reference
(RegisterScalableTarget, TargetTrackingScalingPolicyConfiguration, StepScalingPolicyConfiguration).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Literal

Side = Literal["high", "low"]
_DEFAULT_COOLDOWN_S = 300.0
_TINY = 1e-9
"""Of an instance: what binary fractions add to a whole number needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a scalable target allows, and what it may not do for now."""

    least: int
    most: int
    out_suspended: bool = False
    in_suspended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The capacity that one policy wants, the alarm that called it, and how long it waits after the last change.

    `tracks` says that it is a target tracking policy.
    """

    policy: str
    capacity: int
    alarm: str
    tracks: bool = False
    out_cooldown_s: float = _DEFAULT_COOLDOWN_S
    in_cooldown_s: float = _DEFAULT_COOLDOWN_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new capacity and why; the policy that wanted it waits `out_cooldown_s` if it adds some."""

    capacity: int
    cause: str
    out_cooldown_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The last scale-outs, each within the cooldown of the one before: when the last was, and what there was before."""

    at_s: float
    before: int


def wished(rule: Callable[[int], Wish | None], *, capacity: int, growth: Growth | None, now_s: float) -> Wish | None:
    """Give what a policy wants by its rule, which says it for a capacity.

    What was added within its cooldown is part of what it wants to add: only a larger scale-out adds more.
    """
    wish = rule(capacity)
    if wish is None or growth is None or wish.capacity <= capacity or now_s - growth.at_s >= wish.out_cooldown_s:
        return wish
    whole = rule(growth.before)
    return replace(wish, capacity=max(capacity, whole.capacity if whole is not None else capacity))


def grown(change: Change, growth: Growth | None, *, capacity: int, now_s: float) -> Growth:
    """Give the growth that a scale-out from `capacity` begins or goes on with."""
    goes_on = growth is not None and now_s - growth.at_s < change.out_cooldown_s
    return Growth(at_s=now_s, before=growth.before if growth is not None and goes_on else capacity)


def tracked(
    name: str, config: Mapping[str, Any], values: Sequence[float], *, capacity: int, alarm: str, side: Side
) -> Wish | None:
    """Give what a target tracking policy wants when one of its alarms calls it.

    Args:
        name: of the policy.
        config: its TargetTrackingScalingPolicyConfiguration.
        values: the metric's last periods, newest last; one that has no datapoint is left out.
        capacity: instances or copies that there are now.
        alarm: the name of the alarm.
        side: whether it is the one above the target or the one below.

    """
    if not values or (side == "low" and config.get("DisableScaleIn", False)):
        return None
    target = float(config["TargetValue"])
    # proportional; never below what the busiest of the periods that the lower alarm looks at needs
    seen = values[-1] if side == "high" else max(values)
    wanted = math.ceil(max(1, capacity) * seen / target - _TINY)
    if (wanted <= capacity) if side == "high" else (wanted >= capacity):
        return None
    return Wish(
        policy=name,
        capacity=wanted,
        alarm=alarm,
        tracks=True,
        out_cooldown_s=float(config.get("ScaleOutCooldown", _DEFAULT_COOLDOWN_S)),
        in_cooldown_s=float(config.get("ScaleInCooldown", _DEFAULT_COOLDOWN_S)),
    )


def stepped(name: str, config: Mapping[str, Any], breach: float, *, capacity: int, alarm: str) -> Wish | None:
    """Give what a step policy wants when this alarm stands `breach` above (or below, negative) its threshold."""
    step = _step(config.get("StepAdjustments", ()), breach)
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
    return Wish(policy=name, capacity=wanted, alarm=alarm, out_cooldown_s=cooldown_s, in_cooldown_s=cooldown_s)


def _step(steps: Iterable[Mapping[str, Any]], breach: float) -> Mapping[str, Any] | None:
    """Give the step that a breach falls in; an edge belongs to the one that is farther from the threshold.

    At the threshold itself it is that of the side on which the alarm rings: a policy has steps on that side.
    """
    bounds = [
        (step, step.get("MetricIntervalLowerBound", -math.inf), step.get("MetricIntervalUpperBound", math.inf))
        for step in steps
    ]
    above = [step for step, lower, upper in bounds if breach >= 0 and lower <= breach < upper]
    below = [step for step, lower, upper in bounds if breach <= 0 and lower < breach <= upper]
    return next(iter([*above, *below]), None)


def decide(
    bounds: Bounds,
    wishes: Iterable[Wish],
    *,
    capacity: int,
    since_out_s: float,
    since_in_s: float,
    trackers: AbstractSet[str] = frozenset(),
) -> Change | None:
    """Give the change that follows from all policies, or None.

    A scale-out waits for no cooldown here: `wished` has it.

    Args:
        bounds: capacity outside of them is moved to the nearer one, whatever the policies want.
        wishes: of each policy that wants something; the largest wins.
        capacity: what there is now.
        since_out_s: seconds since the last scale-out, infinite for never.
        since_in_s: the same of the last scale-in.
        trackers: names of the target tracking policies that may scale in: they do so only if each of them wants to
            (guide, *How target tracking works*).

    """
    inside = min(max(capacity, bounds.least), bounds.most)
    if inside != capacity:
        side = "minimum" if inside > capacity else "maximum"
        return Change(capacity=inside, cause=f"{side} capacity was set to {inside}")
    wanting = list(wishes)
    shrinking = {wish.policy for wish in wanting if wish.tracks and wish.capacity < capacity}
    if not shrinking >= trackers:
        wanting = [wish for wish in wanting if wish.policy not in shrinking]
    chosen = max(wanting, key=lambda wish: wish.capacity, default=None)
    if chosen is None:
        return None
    wanted = min(max(chosen.capacity, bounds.least), bounds.most)
    grows, shrinks = wanted > capacity, wanted < capacity
    if grows and bounds.out_suspended:
        return None
    # a scale-in waits for both cooldowns: it must not undo what has just been added
    if shrinks and (bounds.in_suspended or min(since_out_s, since_in_s) < chosen.in_cooldown_s):
        return None
    if not grows and not shrinks:
        return None
    return Change(
        capacity=wanted,
        cause=f"monitor alarm {chosen.alarm} in state ALARM triggered policy {chosen.policy}",
        out_cooldown_s=chosen.out_cooldown_s,
    )
