from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from local.autoscaling import AutoScalingApp, create_app
from local.settings import LocalSettings

TARGET = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/ranker/variant/a",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
TRACKING = {
    "TargetValue": 100.0,
    "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
}


class Service:
    """Calls the application as the wire does, without one."""

    def __init__(self, folder: Path) -> None:
        self._app: AutoScalingApp = create_app(LocalSettings(state_dir=folder, s3_endpoint_url="http://127.0.0.1:1"))

    def __call__(self, name: str, **call: Any) -> dict[str, Any]:
        status, answer = self.raw(name, call)
        assert status == 200, answer
        return answer

    def refused(self, name: str, **call: Any) -> str:
        status, answer = self.raw(name, call)
        assert status == 400
        return str(answer["__type"])

    def raw(self, name: str, call: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": json.dumps(call).encode()}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"x-amz-target", f"AnyScaleFrontendService.{name}".encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        # nothing in it waits, so one step ends it; an event loop would need sockets
        with pytest.raises(StopIteration):
            self._app(scope, receive, send).send(None)
        return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.fixture(name="aas")
def aas_fixture(tmp_path: Path) -> Service:
    """Give the service on an empty state."""
    return Service(tmp_path)


@pytest.fixture(name="target_arn")
def target_arn_fixture(aas: Service) -> str:
    """Give a registered target."""
    return str(aas("RegisterScalableTarget", **TARGET, MinCapacity=1, MaxCapacity=4)["ScalableTargetARN"])


def test_a_target_is_registered_once_and_changed_afterwards(aas: Service, target_arn: str) -> None:
    again = aas("RegisterScalableTarget", **TARGET, MaxCapacity=8)
    (target,) = aas("DescribeScalableTargets", ServiceNamespace="sagemaker")["ScalableTargets"]
    assert again["ScalableTargetARN"] == target_arn == target["ScalableTargetARN"]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 8)
    assert target["RoleARN"].endswith("AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint")


@pytest.mark.parametrize(
    "capacities", [{"MinCapacity": 1}, {}, {"MinCapacity": 3, "MaxCapacity": 2}], ids=["no maximum", "none", "crossed"]
)
def test_a_new_target_needs_a_range(aas: Service, capacities: dict[str, int]) -> None:
    assert aas.refused("RegisterScalableTarget", **TARGET, **capacities) == "ValidationException"


def test_a_dimension_that_aws_lacks_is_refused(aas: Service) -> None:
    call = {**TARGET, "ScalableDimension": "sagemaker:variant:Nothing", "MinCapacity": 1, "MaxCapacity": 2}
    assert aas.refused("RegisterScalableTarget", **call) == "ValidationException"


def test_a_policy_needs_its_target_and_the_configuration_of_its_type(aas: Service, target_arn: str) -> None:
    assert target_arn
    other = {**TARGET, "ResourceId": "endpoint/none/variant/a"}
    put = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    tracking = {"TargetTrackingScalingPolicyConfiguration": TRACKING}
    assert aas.refused("PutScalingPolicy", **other, **put, **tracking) == "ObjectNotFoundException"
    assert aas.refused("PutScalingPolicy", **TARGET, **put) == "ValidationException"
    arn = aas("PutScalingPolicy", **TARGET, **put, **tracking)["PolicyARN"]
    (policy,) = aas("DescribeScalingPolicies", ServiceNamespace="sagemaker", PolicyNames=["p"])["ScalingPolicies"]
    assert policy["PolicyARN"] == arn
    assert policy["TargetTrackingScalingPolicyConfiguration"] == TRACKING


def test_a_policy_keeps_its_name_in_aws_when_it_changes(aas: Service, target_arn: str) -> None:
    assert target_arn
    put = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    first = aas("PutScalingPolicy", **TARGET, **put, TargetTrackingScalingPolicyConfiguration=TRACKING)
    changed = TRACKING | {"TargetValue": 5.0}
    second = aas("PutScalingPolicy", **TARGET, **put, TargetTrackingScalingPolicyConfiguration=changed)
    (policy,) = aas("DescribeScalingPolicies", ServiceNamespace="sagemaker")["ScalingPolicies"]
    assert first["PolicyARN"] == second["PolicyARN"]
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 5.0


def test_deregistering_a_target_takes_its_policies_and_actions_along(aas: Service, target_arn: str) -> None:
    assert target_arn
    put = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    aas("PutScalingPolicy", **TARGET, **put, TargetTrackingScalingPolicyConfiguration=TRACKING)
    aas(
        "PutScheduledAction",
        **TARGET,
        ScheduledActionName="night",
        Schedule="cron(0 1 * * ? *)",
        ScalableTargetAction={"MinCapacity": 1},
    )
    (action,) = aas("DescribeScheduledActions", ServiceNamespace="sagemaker")["ScheduledActions"]
    aas("DeregisterScalableTarget", **TARGET)
    assert action["Schedule"] == "cron(0 1 * * ? *)"
    assert aas("DescribeScalingPolicies", ServiceNamespace="sagemaker")["ScalingPolicies"] == []
    assert aas("DescribeScheduledActions", ServiceNamespace="sagemaker")["ScheduledActions"] == []
    assert aas.refused("DeregisterScalableTarget", **TARGET) == "ObjectNotFoundException"


def test_a_policy_is_deleted_once(aas: Service, target_arn: str) -> None:
    assert target_arn
    put = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling"}
    aas("PutScalingPolicy", **TARGET, **put, TargetTrackingScalingPolicyConfiguration=TRACKING)
    aas("DeleteScalingPolicy", **TARGET, PolicyName="p")
    assert aas.refused("DeleteScalingPolicy", **TARGET, PolicyName="p") == "ObjectNotFoundException"


def test_targets_are_paged_and_found_by_resource(aas: Service) -> None:
    for slot in "abc":
        call = {**TARGET, "ResourceId": f"endpoint/ranker/variant/{slot}"}
        aas("RegisterScalableTarget", **call, MinCapacity=1, MaxCapacity=2)
    first = aas("DescribeScalableTargets", ServiceNamespace="sagemaker", MaxResults=2)
    rest = aas("DescribeScalableTargets", ServiceNamespace="sagemaker", NextToken=first["NextToken"])
    one = aas("DescribeScalableTargets", ServiceNamespace="sagemaker", ResourceIds=["endpoint/ranker/variant/b"])
    assert len(first["ScalableTargets"]) == 2
    assert len(rest["ScalableTargets"]) == len(one["ScalableTargets"]) == 1
    wrong = {"ServiceNamespace": "sagemaker", "NextToken": "x"}
    assert aas.refused("DescribeScalableTargets", **wrong) == "InvalidNextTokenException"


def test_tags_belong_to_a_target(aas: Service, target_arn: str) -> None:
    aas("TagResource", ResourceARN=target_arn, Tags={"a": "1", "b": "2"})
    aas("UntagResource", ResourceARN=target_arn, TagKeys=["a"])
    assert aas("ListTagsForResource", ResourceARN=target_arn) == {"Tags": {"b": "2"}}
    missing = target_arn[:-1] + ("0" if target_arn[-1] != "0" else "1")
    assert aas.refused("ListTagsForResource", ResourceARN=missing) == "ResourceNotFoundException"


def test_a_restart_remembers_everything(tmp_path: Path) -> None:
    before = Service(tmp_path)
    before("RegisterScalableTarget", **TARGET, MinCapacity=1, MaxCapacity=4, Tags={"k": "v"})
    kept = before("DescribeScalableTargets", ServiceNamespace="sagemaker")
    assert Service(tmp_path)("DescribeScalableTargets", ServiceNamespace="sagemaker") == kept
