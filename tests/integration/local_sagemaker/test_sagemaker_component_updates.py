"""Updates of inference components with plain boto3: batches of copies, baking, what takes them back, restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from botocore.exceptions import ClientError

from tests.integration.local_sagemaker.clocks import ALARM, Moved
from tests.integration.local_sagemaker.test_sagemaker_endpoints import alive

BATCHES = {
    "RollingUpdatePolicy": {"MaximumBatchSize": {"Type": "COPY_COUNT", "Value": 1}, "WaitIntervalInSeconds": 300},
    "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": ALARM}]},
}


def specification(aws: Any, version: str, **more: str) -> dict[str, Any]:
    return {"Container": {"Image": "i", "ArtifactUrl": aws.archive(version, **more)}}


def described(aws: Any) -> dict[str, Any]:
    found: dict[str, Any] = aws.sm.describe_inference_component(InferenceComponentName="part")
    return found


def is_now(aws: Any, status: str) -> bool:
    return bool(described(aws)["InferenceComponentStatus"] == status)


def hosted(moved: Moved, copies: int = 2) -> None:
    """Put a component of v2 on an endpoint."""
    aws = moved.aws
    variant = {"VariantName": "fleet", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    role = "arn:aws:iam::123456789012:role/any-role"
    aws.sm.create_endpoint_config(EndpointConfigName="host", ProductionVariants=[variant], ExecutionRoleArn=role)
    aws.endpoint_named("host", "host")
    aws.sm.create_inference_component(
        InferenceComponentName="part",
        EndpointName="host",
        VariantName="fleet",
        Specification=specification(aws, "v2"),
        RuntimeConfig={"CopyCount": copies},
    )
    ends(moved)


def ends(moved: Moved) -> dict[str, Any]:
    """Let time pass until the component is in service, which is soon once its last batch has baked."""

    def settled() -> bool:
        moved.advance(1)
        return is_now(moved.aws, "InService")

    moved.aws.until(settled)
    return described(moved.aws)


def begin(moved: Moved, **more: str) -> None:
    """Begin an update to v3 and return once new copies take requests, if they are healthy."""
    aws = moved.aws
    call = {"InferenceComponentName": "part", "Specification": specification(aws, "v3", **more)}
    aws.sm.update_inference_component(**call, DeploymentConfig=BATCHES)
    if not more:
        aws.until(lambda: answers(aws, 20)["v3"])


def answers(aws: Any, times: int = 100) -> Counter[str]:
    return Counter(aws.invoke("host", InferenceComponentName="part")[1]["answer"] for _ in range(times))


def test_copies_are_replaced_batch_by_batch_and_the_old_ones_answer_until_then(moved: Moved) -> None:
    hosted(moved)
    begin(moved)
    # 50 expected: one of two copies; 4 standard deviations each way
    assert 30 <= answers(moved.aws)["v3"] <= 70
    assert is_now(moved.aws, "Updating")
    moved.advance(300)
    moved.aws.until(lambda: answers(moved.aws, 20) == {"v3": 20})
    assert is_now(moved.aws, "Updating")  # the last batch bakes too
    moved.advance(300)
    after = ends(moved)
    assert after["LastDeploymentConfig"] == BATCHES
    assert "FailureReason" not in after
    assert answers(moved.aws, 20) == {"v3": 20}


def test_an_alarm_takes_an_update_back(moved: Moved) -> None:
    hosted(moved)
    begin(moved)
    moved.set_alarm("ALARM")
    after = ends(moved)
    assert "ALARM" in after["FailureReason"]
    assert answers(moved.aws, 20) == {"v2": 20}
    moved.set_alarm("OK")


def test_copies_that_are_not_healthy_leave_what_served(moved: Moved) -> None:
    hosted(moved)
    before = described(moved.aws)["Specification"]
    begin(moved, fail="no such opset")
    after = ends(moved)
    assert "no such opset" in after["FailureReason"]
    assert after["Specification"] == before
    assert answers(moved.aws, 20) == {"v2": 20}


def test_an_update_that_is_refused_changes_nothing(moved: Moved) -> None:
    hosted(moved)
    before = described(moved.aws)
    good = specification(moved.aws, "v3")
    all_at_once = BATCHES["RollingUpdatePolicy"] | {"MaximumBatchSize": {"Type": "COPY_COUNT", "Value": 2}}
    for call in (
        {"Specification": {"ModelName": "absent"}, "DeploymentConfig": BATCHES},
        {"Specification": {"Container": {}}, "DeploymentConfig": BATCHES},
        {"Specification": good, "DeploymentConfig": {"RollingUpdatePolicy": all_at_once}},
    ):
        with pytest.raises(ClientError):
            moved.aws.sm.update_inference_component(InferenceComponentName="part", **call)
        assert described(moved.aws) == before | {"ResponseMetadata": ANY}


def test_an_update_that_a_restart_interrupts_begins_anew_while_the_old_copies_answer(start: Callable[..., Any]) -> None:
    with start(bake_pace=600) as aws:
        moved = Instant(aws)
        hosted(moved)
        aws.sm.update_inference_component(
            InferenceComponentName="part", Specification=specification(aws, "v3"), DeploymentConfig=BATCHES
        )
        assert is_now(aws, "Updating")
    with start(bake_pace=600) as aws:
        assert set(answers(aws, 5)) <= {"v2", "v3"}
        aws.until(lambda: is_now(aws, "InService"))
        assert answers(aws, 20) == {"v3": 20}


def test_a_model_that_was_deleted_goes_on_serving_after_a_restart(start: Callable[..., Any]) -> None:
    with start() as aws:
        hosted(Instant(aws))
        model = aws.model(aws.archive("v3"))
        aws.sm.update_inference_component(InferenceComponentName="part", Specification={"ModelName": model})
        aws.until(lambda: is_now(aws, "InService"))
        aws.sm.delete_model(ModelName=model)
    with start() as aws:
        assert answers(aws, 5) == {"v3": 5}


class Instant(Moved):
    """A service whose time passes by itself."""

    def __init__(self, aws: Any) -> None:
        self.aws = aws

    def advance(self, _seconds: float) -> None:
        pass


def test_a_component_that_is_deleted_while_its_old_copies_drain_leaves_no_process(aws: Any, tmp_path: Path) -> None:
    hosted(Instant(aws))
    held = {"until": str(tmp_path / "free")}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(aws.invoke, "host", held, InferenceComponentName="part")
        aws.until(lambda: aws.in_flight("host"))
        aws.sm.update_inference_component(InferenceComponentName="part", Specification=specification(aws, "v3"))
        aws.until(lambda: answers(aws, 1) == {"v3": 1})
        aws.sm.delete_inference_component(InferenceComponentName="part")
        aws.until(lambda: not aws.sm.list_inference_components()["InferenceComponents"])
        (tmp_path / "free").touch()
        answer = asked.result(30)[1]
    assert answer["answer"] == "v2"
    aws.until(lambda: not alive(answer["pid"]))


@pytest.mark.parametrize("before", ["ModelName", "Container"])
def test_an_update_replaces_a_model_by_a_container_and_a_container_by_a_model(aws: Any, before: str) -> None:
    """API InferenceComponentSpecification: ModelName and Container each name what is deployed; the rest stays."""
    hosted(Instant(aws))
    given = {
        version: {"ModelName": aws.model(aws.archive(version))}
        if (before == "ModelName") == (version == "v4")
        else specification(aws, version)
        for version in ("v4", "v5")
    }
    resources = {"ComputeResourceRequirements": {"MinMemoryRequiredInMb": 128}}
    for version, more in (("v4", resources), ("v5", {})):
        changed = given[version] | more
        aws.sm.update_inference_component(InferenceComponentName="part", Specification=changed)
        aws.until(lambda: is_now(aws, "InService"))
        assert answers(aws, 5) == {version: 5}
    shown = described(aws)["Specification"]
    assert {"ModelName", "Container"} & shown.keys() == given["v5"].keys()
    assert shown["ComputeResourceRequirements"] == resources["ComputeResourceRequirements"]


def test_a_component_serves_the_bytes_it_was_deployed_with_after_a_restart_too(start: Callable[..., Any]) -> None:
    with start() as aws:
        hosted(Instant(aws))
        url = described(aws)["Specification"]["Container"]["ArtifactUrl"]
        aws.s3.put_object(Bucket="models", Key=url.rpartition("/")[2], Body=b'{"name": "other"}')
    with start() as aws:
        assert answers(aws, 5) == {"v2": 5}
