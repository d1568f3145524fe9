"""An update is what the spec says, within what the mode allows, and its guards see the new fleet alone."""

from __future__ import annotations

from typing import Any

import pytest

SLUG = "sample-scorer"
REALTIME = """
instance_type = "ml.c6i.large"
volume_gb = 60
startup_timeout_s = 300
download_timeout_s = 900
[hosting.scaling]
target_concurrency = 4
"""
CPU = '[runtime]\nkind = "triton"\ndevice = "cpu"'
ROLLING_QUEUE = """
mode = "async"
instance_type = "ml.c6i.large"
[hosting.scaling]
target_backlog = 4
[hosting.deployment]
strategy = "rolling"
step_percent = 30
wait_s = 45
max_duration_s = 5400
"""


def deployed(host: Any, lines: str) -> Any:
    deployment = f"[hosting.deployment]\n{lines}"
    return host(REALTIME + deployment, runtime=CPU).one("AWS::SageMaker::Endpoint", SLUG).props["DeploymentConfig"]


@pytest.mark.parametrize(
    ("strategy", "routing"),
    [
        ("canary", {"Type": "CANARY", "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 20}}),
        ("linear", {"Type": "LINEAR", "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 20}}),
        ("all-at-once", {"Type": "ALL_AT_ONCE"}),
    ],
)
def test_two_variants_are_updated_blue_green_as_the_spec_says(host: Any, strategy: str, routing: Any) -> None:
    lines = f'strategy = "{strategy}"\nstep_percent = 20\nwait_s = 90\ntermination_wait_s = 15\nmax_duration_s = 3600'
    found = deployed(host, lines)
    assert "RollingUpdatePolicy" not in found, "only one policy may be given"
    assert found["BlueGreenUpdatePolicy"] == {
        "TrafficRoutingConfiguration": {**routing, "WaitIntervalInSeconds": 90},
        "TerminationWaitInSeconds": 15,
        "MaximumExecutionTimeoutInSeconds": 3600,
    }


def test_a_stage_deploys_in_its_own_way(host: Any) -> None:
    entry = '[models.sample_scorer.deployment]\nstrategy = "linear"\nstep_percent = 50\nwait_s = 0'
    found = host(REALTIME, runtime=CPU, entry=entry).one("AWS::SageMaker::Endpoint", SLUG).props["DeploymentConfig"]
    assert found["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]["Type"] == "LINEAR"


def test_one_variant_may_roll(host: Any) -> None:
    found = host(ROLLING_QUEUE, runtime=CPU).one("AWS::SageMaker::Endpoint", SLUG).props["DeploymentConfig"]
    assert "BlueGreenUpdatePolicy" not in found, "only one policy may be given"
    assert found["RollingUpdatePolicy"] == {
        "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 30},
        "WaitIntervalInSeconds": 45,
        "MaximumExecutionTimeoutInSeconds": 5400,
    }


def test_an_update_has_at_most_ten_guards_all_of_the_new_fleet(host: Any) -> None:
    made = host(REALTIME, runtime=CPU)
    guards = made.one("AWS::SageMaker::Endpoint", SLUG).props["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    assert 1 <= len(guards) <= 10
    config = made.one("AWS::SageMaker::EndpointConfig", SLUG).id
    for guard in guards:
        props = made.templates[SLUG]["Resources"][guard["AlarmName"]["Ref"]]["Properties"]
        assert {"Name": "EndpointConfigName", "Value": {"Fn::GetAtt": [config, "EndpointConfigName"]}} in (
            props["Dimensions"]
        )


def test_the_role_may_read_each_guard_by_name_and_no_other_alarm(host: Any) -> None:
    made = host(REALTIME, runtime=CPU)
    guards = made.one("AWS::SageMaker::Endpoint", SLUG).props["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"]
    names = {
        made.templates[SLUG]["Resources"][guard["AlarmName"]["Ref"]]["Properties"]["AlarmName"] for guard in guards
    }
    (statement,) = (
        one
        for policy in made.all("AWS::IAM::Policy", SLUG)
        for one in policy.props["PolicyDocument"]["Statement"]
        if "cloudwatch:DescribeAlarms" in str(one["Action"])
    )
    assert {arn.rsplit(":", 1)[-1] for arn in statement["Resource"]} == names


def test_a_variant_has_the_time_the_disk_and_the_routing_that_the_spec_gives(host: Any) -> None:
    for variant in host(REALTIME, runtime=CPU).one("AWS::SageMaker::EndpointConfig", SLUG).props["ProductionVariants"]:
        assert variant["ContainerStartupHealthCheckTimeoutInSeconds"] == 300
        assert variant["ModelDataDownloadTimeoutInSeconds"] == 900
        assert variant["VolumeSizeInGB"] == 60
        assert variant["RoutingConfig"] == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
        assert "ManagedInstanceScaling" not in variant, "AWS takes it for inference components only"
