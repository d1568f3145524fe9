"""A DeploymentConfig as steps of traffic: SageMaker guide, *Deployment guardrails*; API reference of the policies."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.aws_json import ValidationError
from local.sagemaker.plan import ALL_AT_ONCE, component_plan, paced, plan_of


def percent(value: int) -> dict[str, Any]:
    return {"Type": "CAPACITY_PERCENT", "Value": value}


def count(value: int) -> dict[str, Any]:
    return {"Type": "INSTANCE_COUNT", "Value": value}


def blue_green(kind: str, *, wait_s: int = 60, **more: Any) -> dict[str, Any]:
    routing = {"Type": kind, "WaitIntervalInSeconds": wait_s}
    routing |= {key: more.pop(key) for key in ("CanarySize", "LinearStepSize") if key in more}
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, **more}}


def rolling(size: dict[str, Any], wait_s: int = 60) -> dict[str, Any]:
    return {"RollingUpdatePolicy": {"MaximumBatchSize": size, "WaitIntervalInSeconds": wait_s}}


def steps(config: dict[str, Any] | None, *, instances: int = 10) -> list[tuple[float, float]]:
    plan = plan_of(config, instances=instances, variants=1)
    return [(round(step.share, 9), step.wait_s) for step in plan.steps]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, [(1, 0)]),
        ({}, [(1, 0)]),
        (blue_green("ALL_AT_ONCE"), [(1, 0)]),
        (blue_green("CANARY", CanarySize=percent(30)), [(0.3, 60), (1, 0)]),
        (blue_green("CANARY", CanarySize=count(2)), [(0.2, 60), (1, 0)]),
        (blue_green("LINEAR", LinearStepSize=percent(40)), [(0.4, 60), (0.8, 60), (1, 0)]),
        (blue_green("LINEAR", LinearStepSize=count(5)), [(0.5, 60), (1, 0)]),
        (blue_green("LINEAR", LinearStepSize=percent(25)), [(0.25, 60), (0.5, 60), (0.75, 60), (1, 0)]),
        (rolling(percent(50)), [(0.5, 60), (1, 60)]),
        (rolling(count(4)), [(0.4, 60), (0.8, 60), (1, 60)]),
    ],
)
def test_a_policy_is_its_steps_of_traffic(config: dict[str, Any] | None, expected: list[tuple[float, float]]) -> None:
    assert steps(config) == expected


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (blue_green("CANARY"), "CanarySize: got none"),
        (blue_green("CANARY", CanarySize=percent(51)), "CanarySize: got 51 of 100; allowed: 0% to 50%"),
        (blue_green("CANARY", CanarySize=count(6)), "CanarySize: got 6 of 10"),
        (blue_green("LINEAR", LinearStepSize=percent(9)), "LinearStepSize: got 9 of 100; allowed: 10% to 50%"),
        (rolling(percent(4)), "MaximumBatchSize: got 4 of 100; allowed: 5% to 50%"),
        ({**rolling(percent(50)), **blue_green("ALL_AT_ONCE")}, "give one of them"),
        (
            blue_green(
                "LINEAR", wait_s=300, LinearStepSize=percent(50), TerminationWaitInSeconds=300,
                MaximumExecutionTimeoutInSeconds=600,
            ),
            "allowed: more than all waits, 600 s",
        ),
    ],
)  # fmt: skip
def test_what_sagemaker_does_not_take_is_refused_by_name(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        plan_of(config, instances=10, variants=1)


def test_rolling_updates_are_for_one_variant() -> None:
    with pytest.raises(ValidationError, match="got 2 variants; allowed: one"):
        plan_of(rolling(percent(50)), instances=2, variants=2)


@given(size=st.integers(10, 50), wait_s=st.integers(0, 3600), kind=st.sampled_from(["linear", "rolling"]))
def test_steps_only_rise_none_is_larger_than_asked_and_the_last_is_all(size: int, wait_s: int, kind: str) -> None:
    even = (
        blue_green("LINEAR", wait_s=wait_s, LinearStepSize=percent(size))
        if kind == "linear"
        else rolling(percent(size), wait_s)
    )
    even_policy = next(iter(even.values()))
    if 10 * wait_s < 28_800:
        shares = [share for share, _ in steps(even)]
        rises = [after - before for before, after in zip([0.0, *shares], shares, strict=False)]
        assert shares[-1] == 1
        assert all(0 < rise <= size / 100 + 1e-6 for rise in rises), even_policy


def test_a_pace_shortens_waits_and_nothing_else() -> None:
    config = blue_green("CANARY", CanarySize=percent(10), TerminationWaitInSeconds=120)
    config["AutoRollbackConfiguration"] = {"Alarms": [{"AlarmName": "p99"}]}
    plan = paced(plan_of(config, instances=1, variants=1), 60)
    assert [(step.share, step.wait_s) for step in plan.steps] == [(0.1, 1), (1, 0)]
    assert (plan.termination_wait_s, plan.alarms) == (2, ("p99",))
    assert paced(ALL_AT_ONCE, 60) == ALL_AT_ONCE


@pytest.mark.parametrize(
    ("size", "copies", "shares"),
    [
        ({"Type": "COPY_COUNT", "Value": 1}, 1, [1.0]),
        ({"Type": "COPY_COUNT", "Value": 1}, 4, [0.25, 0.5, 0.75, 1.0]),
        ({"Type": "COPY_COUNT", "Value": 2}, 5, [0.4, 0.8, 1.0]),
        ({"Type": "CAPACITY_PERCENT", "Value": 50}, 3, [1 / 3, 2 / 3, 1.0]),
        ({"Type": "CAPACITY_PERCENT", "Value": 5}, 2, [0.5, 1.0]),
    ],
    ids=["one of one", "one of four", "two of five", "half of three", "less than one"],
)
def test_a_batch_is_of_whole_copies(size: dict[str, Any], copies: int, shares: list[float]) -> None:
    policy = {"MaximumBatchSize": size, "WaitIntervalInSeconds": 60}
    plan = component_plan({"RollingUpdatePolicy": policy}, copies=copies)
    assert [step.share for step in plan.steps] == pytest.approx(shares)
    assert {step.wait_s for step in plan.steps} == {60}


@pytest.mark.parametrize(
    "size", [{"Type": "COPY_COUNT", "Value": 3}, {"Type": "CAPACITY_PERCENT", "Value": 51}], ids=["copies", "percent"]
)
def test_a_batch_above_half_of_the_copies_is_refused(size: dict[str, Any]) -> None:
    policy = {"MaximumBatchSize": size, "WaitIntervalInSeconds": 60}
    with pytest.raises(ValidationError, match="allowed: 5% to 50%"):
        component_plan({"RollingUpdatePolicy": policy}, copies=4)


@given(copies=st.integers(2, 1000), data=st.data())
def test_a_batch_is_exactly_as_many_copies_as_its_policy_says(copies: int, data: st.DataObject) -> None:
    """API InferenceComponentRollingUpdatePolicy: a number of copies, or a whole percentage of them, 5 to 50 percent."""
    batch = data.draw(st.integers(math.ceil(copies / 20), copies // 2))
    percentage = data.draw(st.integers(5, 50))
    of_percentage = max(1, math.floor(Fraction(copies * percentage, 100)))
    for kind, value, expected in (("COPY_COUNT", batch, batch), ("CAPACITY_PERCENT", percentage, of_percentage)):
        policy = {"MaximumBatchSize": {"Type": kind, "Value": value}, "WaitIntervalInSeconds": 60}
        plan = component_plan({"RollingUpdatePolicy": policy}, copies=copies)
        assert [round(step.share * copies) for step in plan.steps[:-1]] == list(range(expected, copies, expected))
