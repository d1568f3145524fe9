"""Capacities that Application Auto Scaling's guide prescribes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.scaling_rules import Bounds, Change, Growth, Side, Wish, decide, grown, stepped, tracked, wished

NEVER = math.inf
TRACKING: dict[str, Any] = {"TargetValue": 10, "ScaleOutCooldown": 60, "ScaleInCooldown": 120}


def wish(capacity: int, name: str = "p") -> Wish:
    return Wish(policy=name, capacity=capacity, alarm="x", out_cooldown_s=60, in_cooldown_s=120)


def follow(values: list[float], capacity: int, side: Side, **config: Any) -> int | None:
    found = tracked("p", {**TRACKING, **config}, values, capacity=capacity, alarm="a", side=side)
    return found.capacity if found else None


@pytest.mark.parametrize(
    ("side", "values", "capacity", "wanted"),
    [
        ("high", [25.0] * 3, 2, 5),
        ("high", [99.0, 15.0], 2, 3),
        ("high", [10.0], 2, None),
        ("high", [25.0] * 3, 0, 3),
        ("high", [], 2, None),
        ("low", [1.0] * 15, 4, 1),
        ("low", [1.0] * 14 + [5.0], 4, 2),
        ("low", [5.0] + [1.0] * 14, 4, 2),
        ("low", [0.0] * 15, 4, 0),
        ("low", [9.5] * 15, 4, None),
        ("low", [], 4, None),
    ],
)
def test_tracking_is_proportional_to_the_newest_load_upward_and_to_the_busiest_downward(
    side: Side, values: list[float], capacity: int, wanted: int | None
) -> None:
    assert follow(values, capacity, side) == wanted


def test_tracking_shrinks_nothing_where_that_is_disabled() -> None:
    assert follow([0.0] * 15, 4, "low", DisableScaleIn=True) is None


@given(
    values=st.lists(st.floats(0, 1e4, allow_nan=False), min_size=1, max_size=15),
    capacity=st.integers(0, 50),
    side=st.sampled_from(["high", "low"]),
)
def test_tracking_moves_only_in_the_direction_of_its_alarm_and_carries_the_load_it_saw(
    values: list[float], capacity: int, side: Side
) -> None:
    wanted = follow(values, capacity, side)
    if wanted is None:
        return
    assert wanted > capacity if side == "high" else wanted < capacity
    load = max(1, capacity) * (values[-1] if side == "high" else max(values))
    assert (wanted - 1) * TRACKING["TargetValue"] < load + 1e-3
    assert load <= wanted * TRACKING["TargetValue"] + 1e-3


STEPS = [
    {"MetricIntervalUpperBound": -5, "ScalingAdjustment": -2},
    {"MetricIntervalLowerBound": -5, "MetricIntervalUpperBound": 0, "ScalingAdjustment": -1},
    {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 10, "ScalingAdjustment": 1},
    {"MetricIntervalLowerBound": 10, "ScalingAdjustment": 3},
]


@pytest.mark.parametrize(("breach", "capacity"), [(0, 5), (9.9, 5), (10, 7), (100, 7), (-1, 3), (-5, 2), (-9, 2)])
def test_a_step_is_the_interval_that_the_breach_falls_in(breach: float, capacity: int) -> None:
    found = stepped("s", {"StepAdjustments": STEPS}, breach, capacity=4, alarm="a")
    assert found is not None
    assert found.capacity == capacity


@pytest.mark.parametrize(
    ("step", "capacity"),
    [
        ({"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}, 5),
        ({"MetricIntervalUpperBound": 0, "ScalingAdjustment": -1}, 3),
        ({"MetricIntervalLowerBound": -10, "MetricIntervalUpperBound": 0, "ScalingAdjustment": -1}, 3),
    ],
    ids=["or greater", "or less", "or less, bounded"],
)
def test_at_its_threshold_an_alarm_that_rings_there_takes_the_step_of_its_side(
    step: dict[str, Any], capacity: int
) -> None:
    """API reference, StepAdjustment: with a threshold of 50, 0 to 10 is from 50 on, and -10 to 0 is up to 50."""
    found = stepped("s", {"StepAdjustments": [step]}, 0.0, capacity=4, alarm="a")
    assert found is not None
    assert found.capacity == capacity


@pytest.mark.parametrize(
    ("kind", "amount", "more", "wanted"),
    [
        ("ExactCapacity", 7, {}, 7),
        ("PercentChangeInCapacity", 50, {}, 6),
        ("PercentChangeInCapacity", 10, {}, 5),
        ("PercentChangeInCapacity", -10, {}, 3),
        ("PercentChangeInCapacity", 10, {"MinAdjustmentMagnitude": 2}, 6),
    ],
)
def test_adjustments_are_exact_or_percent_of_what_there_is(
    kind: str, amount: int, more: dict[str, Any], wanted: int
) -> None:
    steps = [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": amount}]
    found = stepped("s", {"AdjustmentType": kind, "StepAdjustments": steps, **more}, 1, capacity=4, alarm="a")
    assert found is not None
    assert found.capacity == wanted


@given(
    least=st.integers(0, 5), extra=st.integers(0, 5), capacity=st.integers(0, 12), wanted=st.lists(st.integers(-3, 20))
)
def test_a_decision_is_within_the_bounds_and_the_largest_wish_wins(
    least: int, extra: int, capacity: int, wanted: list[int]
) -> None:
    bounds = Bounds(least=least, most=least + extra)
    change = decide(bounds, [wish(number) for number in wanted], capacity=capacity, since_out_s=NEVER, since_in_s=NEVER)
    after = change.capacity if change else capacity
    assert bounds.least <= after <= bounds.most
    if wanted and bounds.least <= capacity <= bounds.most:
        assert after == min(max(*wanted, bounds.least), bounds.most)


@pytest.mark.parametrize(
    ("trackers", "step", "after"),
    [
        ({"a": 3, "b": 2}, None, 3),
        ({"a": 3, "b": None}, None, 5),
        ({"a": 3, "b": None}, 2, 2),
        ({"a": 3, "b": 8}, None, 8),
        ({"a": 3}, 4, 4),
        ({"a": 3}, 2, 3),
    ],
    ids=["all want to", "one does not", "a step is not held back", "one grows", "the step is larger", "it is smaller"],
)
def test_tracking_shrinks_only_if_every_tracking_policy_wants_to(
    trackers: dict[str, int | None], step: int | None, after: int
) -> None:
    wishes = [replace(wish(wanted, name), tracks=True) for name, wanted in trackers.items() if wanted is not None]
    wishes += [wish(step, "step")] if step is not None else []
    found = decide(
        Bounds(least=0, most=9), wishes, capacity=5, since_out_s=NEVER, since_in_s=NEVER, trackers=trackers.keys()
    )
    assert (found.capacity if found else 5) == after


@pytest.mark.parametrize(
    ("wanted", "since_out_s", "since_in_s", "acts"),
    [
        (5, NEVER, 0, True),
        (1, NEVER, 119, False),
        (1, 119, NEVER, False),
        (1, 120, 120, True),
    ],
)
def test_a_scale_in_waits_for_cooldowns_and_a_scale_out_for_none_of_a_scale_in(
    wanted: int,
    since_out_s: float,
    since_in_s: float,
    acts: bool,  # noqa: FBT001 - pytest names it
) -> None:
    found = decide(Bounds(least=0, most=9), [wish(wanted)], capacity=3, since_out_s=since_out_s, since_in_s=since_in_s)
    assert (found is not None) == acts


def added(amount: int) -> Any:
    return lambda capacity: wish(capacity + amount)


@pytest.mark.parametrize(
    ("amount", "since_s", "wanted"),
    [(2, 59, 12), (3, 59, 13), (1, 59, 12), (2, 60, 14), (-1, 59, 11)],
    ids=["the same again", "a larger one", "a smaller one", "afterwards", "a scale-in"],
)
def test_what_was_added_within_a_cooldown_is_part_of_what_is_added_next(
    amount: int, since_s: float, wanted: int
) -> None:
    """API reference, StepScalingPolicyConfiguration: after 2, a step of 3 within the cooldown adds 1."""
    found = wished(added(amount), capacity=12, growth=Growth(at_s=100, before=10), now_s=100 + since_s)
    assert found is not None
    assert found.capacity == wanted


@given(
    loads=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 90)), min_size=1, max_size=12), start=st.integers(1, 5)
)
def test_within_a_cooldown_an_alarm_that_goes_on_ringing_adds_no_more_than_its_largest_step(
    loads: list[tuple[int, int]], start: int
) -> None:
    growth, capacity, begun, now, largest, last = None, start, start, 0.0, 0, -NEVER
    for amount, later in loads:
        now += later
        largest, begun = (amount, capacity) if now - last >= 60 else (max(largest, amount), begun)
        asked = wished(added(amount), capacity=capacity, growth=growth, now_s=now)
        assert asked is not None
        assert asked.capacity == max(capacity, begun + largest)
        if asked.capacity > capacity:
            change = Change(capacity=asked.capacity, cause="", out_cooldown_s=60)
            growth, last = grown(change, growth, capacity=capacity, now_s=now), now
        capacity = asked.capacity


def test_a_suspended_direction_stands_still_but_bounds_hold() -> None:
    still = Bounds(least=2, most=9, out_suspended=True, in_suspended=True)
    assert decide(still, [wish(5)], capacity=3, since_out_s=NEVER, since_in_s=NEVER) is None
    assert decide(still, [wish(2)], capacity=3, since_out_s=NEVER, since_in_s=NEVER) is None
    moved = decide(still, [], capacity=1, since_out_s=NEVER, since_in_s=NEVER)
    assert moved is not None
    assert moved.capacity == 2
