"""Registered targets are moved by what CloudWatch says, through SageMaker's own calls."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.scaling_watch import ScalingWatch

NOON = 129_600.0  # of 2 January 1970
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
    """One metric's last values, and the alarms that ring."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.alarms: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []

    def get_metric_data(self, **call: Any) -> dict[str, Any]:
        self.asked.append(call)
        assert call["ScanBy"] == "TimestampAscending"
        return {"MetricDataResults": [{"Id": "m1", "Values": self.values}]}

    def describe_alarms(self, **call: Any) -> dict[str, Any]:
        assert call["StateValue"] == "ALARM"
        first = int(call.get("NextToken", 0))
        rest = {"NextToken": str(first + 1)} if first + 1 < len(self.alarms) else {}
        return {"MetricAlarms": self.alarms[first : first + 1], **rest}


def ringing(name: str, policy: str, **more: Any) -> dict[str, Any]:
    metric = {"Namespace": "N", "MetricName": "M", "Dimensions": [], "Statistic": "Sum", "Period": 60}
    return {"AlarmName": name, "AlarmActions": [policy], "Threshold": 1.0, "EvaluationPeriods": 1, **metric, **more}


HIGH = ringing("TargetTracking-endpoint/e/variant/a-AlarmHigh-1", "arn:tracking:createdBy/me")
LOW = ringing("TargetTracking-endpoint/e/variant/a-AlarmLow-1", "arn:tracking:createdBy/me")


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
        "PolicyARN": "arn:tracking",
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


class Hands:
    """A clock whose time is set."""

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s

    def now(self) -> float:
        return self.at_s

    async def sleep(self, seconds: float) -> None:
        self.at_s += seconds


class Scaled:
    """One target with scheduled actions."""

    def __init__(self) -> None:
        self.target, self.actions, self.notes = target(), list[dict[str, Any]](), list[dict[str, Any]]()

    def registered(self) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
        return [(self.target, [])]

    def scheduled(self) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
        return [(self.target, self.actions)]

    def bound(self, held: dict[str, Any], *, least: int, most: int) -> None:
        held |= {"MinCapacity": least, "MaxCapacity": most}

    def note(self, activity: dict[str, Any]) -> None:
        self.notes.append(activity)


class Scene:
    def __init__(self, count: int) -> None:
        self.sagemaker, self.cloudwatch, self.clock = SageMaker(count), CloudWatch(), Hands(NOON)
        self.scaled = Scaled()
        self.watch = ScalingWatch(self.scaled, sagemaker=self.sagemaker, cloudwatch=self.cloudwatch, clock=self.clock)


def test_a_ringing_alarm_adds_instances_and_is_told_as_an_activity() -> None:
    scene = Scene(2)
    scene.cloudwatch.values, scene.cloudwatch.alarms = [10.0] * 3, [HIGH]
    activity = scene.watch.look(target(), [CONCURRENCY])
    assert scene.sagemaker.count == 4
    assert activity is not None
    assert activity["Description"] == "Setting desired instance count to 4."
    assert activity["Cause"] == f"monitor alarm {HIGH['AlarmName']} in state ALARM triggered policy t"
    (asked,) = scene.cloudwatch.asked
    (query,) = asked["MetricDataQueries"]
    assert query["MetricStat"]["Metric"]["MetricName"] == "ConcurrentRequestsPerModel"
    assert query["MetricStat"]["Period"] == 10
    assert asked["EndTime"].timestamp() % 10 == 0
    assert scene.watch.look(target(), [CONCURRENCY]) is None, "within the cooldown"


def test_a_larger_scale_out_does_not_wait_and_counts_what_was_just_added() -> None:
    """Application Auto Scaling guide, *How target tracking works*, cooldown periods."""
    scene = Scene(2)
    scene.cloudwatch.alarms = [HIGH]
    counts = []
    for value, later in [(10.0, 0), (10.0, 10), (15.0, 10), (15.0, 10), (10.0, 49), (10.0, 1)]:
        scene.clock.at_s += later
        scene.cloudwatch.values = [value] * 3
        scene.watch.look(target(most=20), [CONCURRENCY])
        counts.append(scene.sagemaker.count)
    # twice the load of five; three times what there was at first; and then twice what there is
    assert counts == [4, 4, 6, 6, 6, 12]


@pytest.mark.parametrize(
    ("alarms", "count"),
    [
        ([], 4),
        ([LOW], 1),
        ([{**LOW, "ActionsEnabled": False}], 4),
        ([ringing("x", "arn:tracking2:createdBy/me")], 4),
        ([ringing("x", "arn:other"), LOW], 1),
    ],
    ids=["quiet", "low", "actions disabled", "another policy", "on the second page"],
)
def test_only_alarms_that_call_the_policy_scale(alarms: list[dict[str, Any]], count: int) -> None:
    scene = Scene(4)
    scene.cloudwatch.values, scene.cloudwatch.alarms = [0.5] * 15, alarms
    scene.watch.look(target(), [CONCURRENCY])
    assert scene.sagemaker.count == count


def test_suspended_scaling_leaves_counts_alone() -> None:
    scene = Scene(2)
    scene.cloudwatch.values, scene.cloudwatch.alarms = [10.0], [HIGH]
    assert scene.watch.look(target(DynamicScalingOutSuspended=True), [CONCURRENCY]) is None
    assert scene.sagemaker.count == 2


def test_a_component_at_zero_wakes_by_the_alarm_that_names_the_policy() -> None:
    scene = Scene(0)
    assert scene.watch.look(target(COMPONENT, least=0), [WAKE]) is None
    scene.cloudwatch.alarms = [ringing("wake", "arn:policy", StateReasonData='{"recentDatapoints": [3.0]}')]
    activity = scene.watch.look(target(COMPONENT, least=0), [WAKE])
    assert scene.sagemaker.count == 1
    assert activity is not None
    assert activity["Description"] == "Setting desired copy count to 1."


def test_a_step_is_chosen_by_what_the_metric_is_now_not_when_the_alarm_rang() -> None:
    scene = Scene(1)
    steps = [
        {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 10, "ScalingAdjustment": 1},
        {"MetricIntervalLowerBound": 10, "ScalingAdjustment": 3},
    ]
    policy = WAKE | {"StepScalingPolicyConfiguration": {"StepAdjustments": steps}}
    scene.cloudwatch.alarms = [ringing("wake", "arn:policy", StateReasonData='{"recentDatapoints": [3.0]}')]
    scene.cloudwatch.values = [50.0]
    scene.watch.look(target(), [policy])
    assert scene.sagemaker.count == 4
    (asked,) = scene.cloudwatch.asked
    assert asked["MetricDataQueries"][0]["MetricStat"]["Metric"]["MetricName"] == "M"


def peak(name: str, schedule: str, **bounds: int) -> dict[str, Any]:
    return {
        "ScheduledActionName": name,
        "Schedule": schedule,
        "CreationTime": NOON - 60,
        "ScalableTargetAction": bounds,
    }


def test_a_scheduled_action_changes_the_range_and_the_count_follows_even_if_the_clock_is_set_back() -> None:
    scene = Scene(1)
    scene.scaled.actions = [peak("morning", "cron(30 12 * * ? *)", MinCapacity=3)]

    scene.clock.at_s = NOON + 1799
    scene.watch.run_schedules()
    assert scene.scaled.notes == []
    for at_s in (1800, 1800, 1700, 1801):
        scene.clock.at_s = NOON + at_s
        scene.watch.run_schedules()
    (note,) = scene.scaled.notes
    assert (note["Cause"], note["StatusCode"]) == ("scheduled action name morning was triggered", "Successful")
    assert (note["Description"], note["StartTime"]) == ("Setting min capacity to 3", NOON + 1800)
    assert (scene.scaled.target["MinCapacity"], scene.scaled.target["MaxCapacity"]) == (3, 8)
    activity = scene.watch.look(scene.scaled.target, [])
    assert scene.sagemaker.count == 3
    assert activity is not None
    assert activity["Cause"] == "minimum capacity was set to 3"


def test_what_was_due_several_times_counts_once_and_in_order() -> None:
    scene = Scene(1)
    scene.scaled.actions = [
        peak("late", "at(1970-01-02T13:00:00)", MinCapacity=2, MaxCapacity=4),
        peak("often", "rate(5 minutes)", MinCapacity=1, MaxCapacity=6),
        peak("early", "at(1970-01-02T12:10:00)", MinCapacity=5, MaxCapacity=5),
    ]

    scene.clock.at_s = NOON + 3630
    scene.watch.run_schedules()
    names = [note["Cause"].split()[3] for note in scene.scaled.notes]
    assert names == ["early", "often", "late"]
    assert (scene.scaled.target["MinCapacity"], scene.scaled.target["MaxCapacity"]) == (2, 4)


def test_a_range_that_would_cross_fails_and_a_suspended_target_keeps_its_own() -> None:
    scene = Scene(1)
    scene.scaled.actions = [peak("crossed", "rate(1 minute)", MinCapacity=9)]

    scene.clock.at_s, scene.scaled.target["SuspendedState"] = NOON + 60, {"ScheduledScalingSuspended": True}
    scene.watch.run_schedules()
    assert scene.scaled.notes == []
    scene.clock.at_s, scene.scaled.target["SuspendedState"] = NOON + 120, {}
    scene.watch.run_schedules()
    (note,) = scene.scaled.notes
    assert note["StatusCode"] == "Failed"
    assert scene.scaled.target["MinCapacity"] == 1


@pytest.mark.parametrize(("count", "moved"), [(0, 2), (9, 4)])
def test_capacity_outside_the_bounds_is_moved_at_once(count: int, moved: int) -> None:
    scene = Scene(count)
    scene.watch.look(target(least=2, most=4), [])
    assert scene.sagemaker.count == moved


def test_an_endpoint_that_changes_is_left_alone() -> None:
    scene = Scene(2)
    scene.sagemaker.status, scene.cloudwatch.values, scene.cloudwatch.alarms = "Updating", [99.0] * 3, [HIGH]
    assert scene.watch.look(target(), [CONCURRENCY]) is None
    assert scene.sagemaker.count == 2


def test_a_refused_call_ends_nothing() -> None:
    scene = Scene(2)
    scene.sagemaker.refuses, scene.cloudwatch.values, scene.cloudwatch.alarms = True, [99.0] * 3, [HIGH]
    assert scene.watch.look(target(), [CONCURRENCY]) is None
    scene.sagemaker.refuses = False
    assert scene.watch.look(target(), [CONCURRENCY]) is not None, "a refused change begins no cooldown"
