"""Registered targets are moved by what CloudWatch says, through SageMaker's own calls."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.clock import ManualClock
from local.scaling_watch import ScalingWatch

VARIANT = "endpoint/e/variant/a"
COMPONENT = "inference-component/ic"


class SageMaker:
    """One endpoint and one component with counts that calls change."""

    def __init__(self, count: int) -> None:
        self.count, self.status = count, "InService"
        self.refuses = False

    def describe_endpoint(self, **_call: Any) -> dict[str, Any]:
        variant = {"VariantName": "a", "CurrentInstanceCount": self.count}
        return {"EndpointStatus": self.status, "ProductionVariants": [variant]}

    def describe_inference_component(self, **_call: Any) -> dict[str, Any]:
        return {"InferenceComponentStatus": self.status, "RuntimeConfig": {"CurrentCopyCount": self.count}}

    def update_endpoint_weights_and_capacities(self, **call: Any) -> None:
        if self.refuses:
            raise ClientError({"Error": {"Code": "ValidationException", "Message": "in progress"}}, "Update")
        self.count = call["DesiredWeightsAndCapacities"][0]["DesiredInstanceCount"]

    def update_inference_component_runtime_config(self, **call: Any) -> None:
        self.count = call["DesiredRuntimeConfig"]["CopyCount"]


class CloudWatch:
    """One metric's last values, and alarms."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.alarms: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []

    def get_metric_statistics(self, **call: Any) -> dict[str, Any]:
        self.asked.append(call)
        points = [
            {"Timestamp": datetime.fromtimestamp(place, UTC), call["Statistics"][0]: value}
            for place, value in enumerate(self.values)
        ]
        return {"Datapoints": points[::-1]}

    def describe_alarms(self, **_call: Any) -> dict[str, Any]:
        return {"MetricAlarms": self.alarms}


def target(resource: str = VARIANT, *, least: int = 1, most: int = 8, **suspended: bool) -> dict[str, Any]:
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": resource,
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "MinCapacity": least,
        "MaxCapacity": most,
        "SuspendedState": suspended,
    }


def tracking(metric: str, value: float) -> dict[str, Any]:
    config = {
        "TargetValue": value,
        "PredefinedMetricSpecification": {"PredefinedMetricType": metric},
        "ScaleOutCooldown": 60,
    }
    return {
        "PolicyName": "t",
        "PolicyType": "TargetTrackingScaling",
        "TargetTrackingScalingPolicyConfiguration": config,
    }


CONCURRENCY = tracking("SageMakerVariantConcurrentRequestsPerModelHighResolution", 5)
WAKE = {
    "PolicyName": "from-zero",
    "PolicyType": "StepScaling",
    "PolicyARN": "arn:policy",
    "StepScalingPolicyConfiguration": {"StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}]},
}


class Scene:
    def __init__(self, count: int) -> None:
        self.sagemaker, self.cloudwatch, self.clock = SageMaker(count), CloudWatch(), ManualClock(100_000.0)
        self.watch = ScalingWatch(None, sagemaker=self.sagemaker, cloudwatch=self.cloudwatch, clock=self.clock)  # type: ignore[arg-type]


def test_sustained_concurrency_adds_instances_and_is_told_as_an_activity() -> None:
    scene = Scene(2)
    scene.cloudwatch.values = [10.0] * 3
    activity = scene.watch.look(target(), [CONCURRENCY])
    assert scene.sagemaker.count == 4
    assert activity is not None
    assert activity["Description"] == "Setting desired capacity to 4."
    (asked,) = scene.cloudwatch.asked
    assert (asked["MetricName"], asked["Period"]) == ("ConcurrentRequestsPerModel", 10)
    assert asked["EndTime"].timestamp() % 10 == 0
    scene.cloudwatch.values = [20.0] * 3
    assert scene.watch.look(target(), [CONCURRENCY]) is None, "within the cooldown"


def test_invocations_are_counted_for_each_instance() -> None:
    scene = Scene(2)
    scene.cloudwatch.values = [80.0] * 3
    scene.watch.look(target(), [tracking("SageMakerVariantInvocationsPerInstance", 20)])
    # 80 a minute over 2 instances is 40 each, twice the target
    assert scene.sagemaker.count == 4


def test_a_component_at_zero_wakes_by_the_alarm_that_names_the_policy() -> None:
    scene = Scene(0)
    assert scene.watch.look(target(COMPONENT, least=0), [WAKE]) is None
    scene.cloudwatch.alarms = [
        {"AlarmActions": ["arn:policy"], "Threshold": 1.0, "StateReasonData": '{"recentDatapoints": [3.0]}'}
    ]
    scene.watch.look(target(COMPONENT, least=0), [WAKE])
    assert scene.sagemaker.count == 1


@pytest.mark.parametrize(("count", "moved"), [(0, 2), (9, 4)])
def test_capacity_outside_the_bounds_is_moved_at_once(count: int, moved: int) -> None:
    scene = Scene(count)
    scene.watch.look(target(least=2, most=4), [])
    assert scene.sagemaker.count == moved


def test_an_endpoint_that_changes_is_left_alone() -> None:
    scene = Scene(2)
    scene.sagemaker.status, scene.cloudwatch.values = "Updating", [99.0] * 3
    assert scene.watch.look(target(), [CONCURRENCY]) is None
    assert scene.sagemaker.count == 2


def test_a_refused_call_ends_nothing() -> None:
    scene = Scene(2)
    scene.sagemaker.refuses, scene.cloudwatch.values = True, [99.0] * 3
    assert scene.watch.look(target(), [CONCURRENCY]) is None
    scene.sagemaker.refuses = False
    assert scene.watch.look(target(), [CONCURRENCY]) is not None, "a refused change begins no cooldown"
