"""Scaling says what the spec says, for each slot by itself and under names that no deploy changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

SLUG = "sample-scorer"
NAME = "streamhub-lab-sample-scorer"
ALL = """
instance_type = "ml.g4dn.12xlarge"
min_count = 2
max_count = 9
[hosting.scaling]
target_concurrency = 8
target_invocations = 600
target_gpu_percent = 60
scale_in_cooldown_s = 400
scale_out_cooldown_s = 30
[hosting.scaling.custom]
namespace = "Feeds"
name = "QueueDepth"
target = 20
statistic = "Maximum"
[hosting.scaling.step]
metric = "gpu"
threshold = 80
period_s = 10
periods = 3
cooldown_s = 45
steps = [{ lower = 0, upper = 40, add = 1 }, { lower = 40, add = 3 }]
[[hosting.scaling.schedules]]
name = "evening"
start = "cron(0 17 * * ? *)"
end = "cron(0 23 * * ? *)"
timezone = "Europe/Berlin"
min_count = 5
"""
GPUS = 4  # EC2: g4dn.12xlarge has four T4


@pytest.fixture(scope="module", name="scaled")
def scaled_fixture(host: Any) -> Any:
    return host(ALL)


def tracking(stage: Any, slot: str, what: str) -> Any:
    (found,) = (
        one.props["TargetTrackingScalingPolicyConfiguration"]
        for one in stage.all("AWS::ApplicationAutoScaling::ScalingPolicy", SLUG)
        if one.props["PolicyName"] == f"{NAME}-{slot}-{what}"
    )
    return found


def test_each_slot_has_one_policy_for_each_target_and_a_step(scaled: Any) -> None:
    names = [one.props["PolicyName"] for one in scaled.all("AWS::ApplicationAutoScaling::ScalingPolicy", SLUG)]
    kinds = ("concurrency", "invocations", "gpu", "custom", "step")
    assert sorted(names) == sorted(f"{NAME}-{slot}-{kind}" for slot in "ab" for kind in kinds)


@pytest.mark.parametrize("slot", ["a", "b"])
def test_predefined_metrics_are_those_of_variants(scaled: Any, slot: str) -> None:
    for what, metric, target in (
        ("concurrency", "SageMakerVariantConcurrentRequestsPerModelHighResolution", 8),
        ("invocations", "SageMakerVariantInvocationsPerInstance", 600),
    ):
        found = tracking(scaled, slot, what)
        assert found["PredefinedMetricSpecification"] == {"PredefinedMetricType": metric}
        assert found["TargetValue"] == target
        assert (found["ScaleInCooldown"], found["ScaleOutCooldown"]) == (400, 30)


@pytest.mark.parametrize("slot", ["a", "b"])
def test_gpu_use_is_a_share_of_all_gpus_where_sagemaker_counts_100_for_each(scaled: Any, slot: str) -> None:
    found = tracking(scaled, slot, "gpu")
    assert found["TargetValue"] == 60 * GPUS
    assert found["CustomizedMetricSpecification"] == {
        "Namespace": "/aws/sagemaker/Endpoints",
        "MetricName": "GPUUtilization",
        "Statistic": "Average",
        "Dimensions": [{"Name": "EndpointName", "Value": NAME}, {"Name": "VariantName", "Value": slot}],
    }


@pytest.mark.parametrize("slot", ["a", "b"])
def test_a_queues_depth_is_read_where_its_owner_publishes_it(scaled: Any, slot: str) -> None:
    found = tracking(scaled, slot, "custom")
    assert found["TargetValue"] == 20
    specification = found["CustomizedMetricSpecification"]
    assert (specification["Namespace"], specification["MetricName"]) == ("Feeds", "QueueDepth")
    assert specification["Statistic"] == "Maximum"


def test_a_known_peak_raises_the_floor_and_gives_it_back_in_its_own_time_zone(scaled: Any) -> None:
    for target in scaled.all("AWS::ApplicationAutoScaling::ScalableTarget", SLUG):
        assert target.props["ScheduledActions"] == [
            {
                "ScheduledActionName": "evening-start",
                "Schedule": "cron(0 17 * * ? *)",
                "Timezone": "Europe/Berlin",
                "ScalableTargetAction": {"MinCapacity": 5},
            },
            {
                "ScheduledActionName": "evening-end",
                "Schedule": "cron(0 23 * * ? *)",
                "Timezone": "Europe/Berlin",
                "ScalableTargetAction": {"MinCapacity": 2},
            },
        ]


def test_a_jump_adds_more_the_higher_it_is(scaled: Any) -> None:
    (policy,) = (
        one
        for one in scaled.all("AWS::ApplicationAutoScaling::ScalingPolicy", SLUG)
        if one.props["PolicyName"] == f"{NAME}-a-step"
    )
    step = policy.props["StepScalingPolicyConfiguration"]
    assert (step["AdjustmentType"], step["Cooldown"]) == ("ChangeInCapacity", 45)
    assert step["StepAdjustments"] == [
        {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 40, "ScalingAdjustment": 1},
        {"MetricIntervalLowerBound": 40, "ScalingAdjustment": 3},
    ]
    (alarm,) = (
        one.props
        for one in scaled.all("AWS::CloudWatch::Alarm", SLUG)
        if one.props["AlarmName"] == f"scaling-{NAME}-a-step"
    )
    assert alarm["AlarmActions"] == [{"Ref": policy.id}]
    assert alarm["Threshold"] == 80 * GPUS
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (10, 3, 3)


def test_alarms_that_drive_scaling_call_nobody(scaled: Any) -> None:
    patterns = [
        one.props["EventPattern"]["detail"]["alarmName"] for one in scaled.all("AWS::Events::Rule", "monitoring")
    ]
    prefixes = [prefix["prefix"] for names in patterns for prefix in names]
    driving = [one.props["AlarmName"] for one in scaled.all("AWS::CloudWatch::Alarm") if "AlarmActions" in one.props]
    assert driving
    assert not [name for name in driving for prefix in prefixes if name.startswith(prefix)]


def test_the_first_of_two_deploys_that_change_an_instance_type_takes_every_target_away(host: Any) -> None:
    # guide, endpoint-scaling-update: while a variant is registered its instance type cannot change
    without = host(ALL, entry="autoscaling = false")
    assert not without.all("AWS::ApplicationAutoScaling::ScalableTarget")
    assert not without.all("AWS::ApplicationAutoScaling::ScalingPolicy")
    kept = host(ALL).templates[SLUG]["Resources"]
    here = without.templates[SLUG]["Resources"]
    assert here == {key: value for key, value in kept.items() if key in here}, "and changes nothing else"


def test_another_version_changes_neither_names_nor_bounds(host: Any, scaled: Any) -> None:
    after = host(ALL, b="2.0.0")
    for kind in ("AWS::ApplicationAutoScaling::ScalableTarget", "AWS::ApplicationAutoScaling::ScalingPolicy"):
        before = {one.id: json.dumps(one.entry, sort_keys=True) for one in scaled.all(kind)}
        assert {one.id: json.dumps(one.entry, sort_keys=True) for one in after.all(kind)} == before
