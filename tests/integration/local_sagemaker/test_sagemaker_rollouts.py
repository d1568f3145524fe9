"""Blue/green and rolling deployments with plain boto3: shares on the way, baking, alarms that take them back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from botocore.exceptions import ClientError

from local.clock import ManualClock
from tests.integration.local_sagemaker.clocks import ALARM, Moved


def policy(kind: str, **sizes: int) -> dict[str, Any]:
    routing: dict[str, Any] = {"Type": kind, "WaitIntervalInSeconds": 300}
    routing |= {name: {"Type": "CAPACITY_PERCENT", "Value": value} for name, value in sizes.items()}
    return {
        "BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 120},
        "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": ALARM}]},
    }


def updated(aws: Any, deployment: dict[str, Any]) -> tuple[str, str, str]:
    """Begin an update of a v2 endpoint to v3; gives endpoint, old and new config once new instances stand."""
    old = aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1})
    endpoint = aws.endpoint(old)
    new = aws.config({"a": aws.model(aws.archive("v3"))}, {"a": 1})
    aws.sm.update_endpoint(EndpointName=endpoint, EndpointConfigName=new, DeploymentConfig=deployment)
    aws.until(lambda: stage(aws, endpoint) != "Creating")
    return endpoint, old, new


def stage(aws: Any, endpoint: str) -> str:
    pending = aws.sm.describe_endpoint(EndpointName=endpoint).get("PendingDeploymentSummary")
    return str(pending["ProductionVariants"][0]["VariantStatus"][0]["Status"]) if pending else "none"


def answers(aws: Any, endpoint: str, times: int = 100) -> Counter[str]:
    return Counter(aws.invoke(endpoint)[1]["answer"] for _ in range(times))


def test_a_canary_takes_its_part_bakes_then_takes_all_and_the_old_fleet_waits(moved: Moved) -> None:
    aws = moved.aws
    endpoint, old, new = updated(aws, policy("CANARY", CanarySize=30))
    canary = answers(aws, endpoint)
    # 30 expected; 4 standard deviations each way
    assert 12 <= canary["v3"] <= 48
    moved.advance(299)
    assert stage(aws, endpoint) == "Baking"
    moved.advance(1)
    assert answers(aws, endpoint, 20) == {"v3": 20}
    described = aws.sm.describe_endpoint(EndpointName=endpoint)
    assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("Updating", old)
    moved.advance(120)
    described = aws.sm.describe_endpoint(EndpointName=endpoint)
    assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", new)
    assert described["LastDeploymentConfig"] == policy("CANARY", CanarySize=30)


@pytest.mark.parametrize("at_s", [0, 300], ids=["while the canary bakes", "while the old fleet waits"])
def test_an_alarm_takes_a_deployment_back_without_a_word(moved: Moved, at_s: int) -> None:
    aws = moved.aws
    endpoint, old, _ = updated(aws, policy("CANARY", CanarySize=30))
    moved.advance(at_s)
    moved.set_alarm("ALARM")

    def rolled_back() -> Any:
        moved.advance(1)
        described = aws.sm.describe_endpoint(EndpointName=endpoint)
        return described if described["EndpointStatus"] == "InService" else None

    described = aws.until(rolled_back)
    assert described["EndpointConfigName"] == old
    assert "FailureReason" not in described
    assert answers(aws, endpoint, 20) == {"v2": 20}
    moved.set_alarm("OK")


def test_an_endpoint_takes_no_call_while_it_is_deployed_but_deletion(moved: Moved) -> None:
    aws = moved.aws
    endpoint, old, _ = updated(aws, policy("LINEAR", LinearStepSize=50))
    change = [{"VariantName": "a", "DesiredWeight": 2}]
    for call in (
        lambda: aws.sm.update_endpoint(EndpointName=endpoint, EndpointConfigName=old),
        lambda: aws.sm.update_endpoint_weights_and_capacities(
            EndpointName=endpoint, DesiredWeightsAndCapacities=change
        ),
    ):
        with pytest.raises(ClientError, match="Cannot update in-progress endpoint"):
            call()
    aws.sm.delete_endpoint(EndpointName=endpoint)
    moved.advance(1)
    with pytest.raises(ClientError, match="Could not find endpoint"):
        aws.sm.describe_endpoint(EndpointName=endpoint)


def test_a_deployment_that_a_restart_interrupts_while_it_bakes_goes_on_after_it(start: Callable[..., Any]) -> None:
    clock = Moved(ManualClock(time.time()))
    with start(clock=clock.clock, bake_pace=1.0) as aws:
        endpoint, _, new = updated(aws, {**policy("CANARY", CanarySize=50), "AutoRollbackConfiguration": {}})
    with start(clock=clock.clock, bake_pace=1.0) as aws:
        clock.aws = aws
        aws.until(lambda: set(answers(aws, endpoint, 20)) == {"v2", "v3"})
        clock.advance(421)
        described = aws.sm.describe_endpoint(EndpointName=endpoint)
        assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", new)


def test_a_new_fleet_whose_archive_a_restart_cannot_find_leaves_the_old_one_serving(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    clock = Moved(ManualClock(time.time()))
    with start(clock=clock.clock, bake_pace=1.0) as aws:
        endpoint, old, new = updated(aws, {**policy("CANARY", CanarySize=50), "AutoRollbackConfiguration": {}})
        (variant,) = aws.sm.describe_endpoint_config(EndpointConfigName=new)["ProductionVariants"]
        container = aws.sm.describe_model(ModelName=variant["ModelName"])["PrimaryContainer"]
        aws.s3.delete_object(Bucket="models", Key=container["ModelDataUrl"].rpartition("/")[2])
    for archive in (tmp_path / "state" / "archives").iterdir():
        if b"v3" in archive.read_bytes():
            archive.unlink()
    with start(clock=clock.clock, bake_pace=1.0) as aws:
        described = aws.settled(endpoint)
        assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", old)
        assert "Failed to download model data" in described["FailureReason"]
        assert answers(aws, endpoint, 20) == {"v2": 20}


@pytest.mark.parametrize("names", [["b"], ["a", "b"]], ids=["another", "one more"])
def test_a_policy_is_for_the_variants_that_there_are(aws: Any, names: list[str]) -> None:
    """Guide, *deployment-guardrails-exclusions*: the new config must have the same variant name as the old one."""
    model = aws.model(aws.archive("v2"))
    endpoint = aws.endpoint(aws.config({"a": model}, {"a": 1}))
    before = aws.sm.describe_endpoint(EndpointName=endpoint)
    config = aws.config(dict.fromkeys(names, model), dict.fromkeys(names, 1))
    call = {"EndpointName": endpoint, "EndpointConfigName": config}
    with pytest.raises(ClientError, match=f"got variants {', '.join(names)}; allowed: .* a; "):
        aws.sm.update_endpoint(**call, DeploymentConfig=policy("CANARY", CanarySize=50))
    assert aws.sm.describe_endpoint(EndpointName=endpoint) == before | {"ResponseMetadata": ANY}
    aws.sm.update_endpoint(**call)
    assert aws.settled(endpoint)["EndpointConfigName"] == config
