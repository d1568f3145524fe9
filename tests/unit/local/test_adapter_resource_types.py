"""What our CloudFormation types ask of SageMaker and Application Auto Scaling; botocore checks each request."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from local import resource_types as types
from local.resource_types import Target, resource_types
from local.template_types import ResourceType, generated_name, request_of
from serving.errors import LocalStackError

ARN = "arn:aws:sagemaker:us-east-1:123456789012"
TARGET = Target(endpoint_url="http://127.0.0.1:1", region="us-east-1")
NOW = datetime(2026, 12, 1, tzinfo=UTC)
REFERENCE = "endpoint/e/variant/a|sagemaker:variant:DesiredInstanceCount|sagemaker"


class Wired:
    """Our types over stubbed clients."""

    def __init__(self, found: dict[str, ResourceType], stubs: dict[str, Stubber]) -> None:
        self.types = found
        self.sagemaker = stubs["sagemaker"]
        self.scaling = stubs["application-autoscaling"]
        self.cache = stubs["elasticache"]


@pytest.fixture(name="wired")
def wired_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wired]:
    stubs: dict[str, Stubber] = {}

    def client(service: str, target: Target) -> Any:
        made = boto3.client(
            service,
            endpoint_url=target.endpoint_url,
            region_name=target.region,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - nothing is sent
        )
        stubs[service] = Stubber(made)
        stubs[service].activate()
        return made

    monkeypatch.setattr(types, "client", client)
    monkeypatch.setattr(types, "_POLL_S", 0.0)
    yield Wired(resource_types(TARGET), stubs)
    for stub in stubs.values():
        stub.assert_no_pending_responses()


def described(status: str, *, config: str = "c1", **more: Any) -> dict[str, Any]:
    return {
        "EndpointName": "e",
        "EndpointArn": f"{ARN}:endpoint/e",
        "EndpointConfigName": config,
        "EndpointStatus": status,
        "CreationTime": NOW,
        "LastModifiedTime": NOW,
        **more,
    }


def test_numbers_and_booleans_written_as_text_become_what_the_api_takes() -> None:
    request = request_of(
        {
            "EndpointConfigName": "c",
            "ProductionVariants": [
                {"VariantName": "a", "ModelName": "m", "InitialInstanceCount": "2", "InitialVariantWeight": "0"}
            ],
            "DataCaptureConfig": {"EnableCapture": "true", "InitialSamplingPercentage": 100},
            "NotOfTheApi": 1,
        },
        "CreateEndpointConfig",
    )
    [variant] = request["ProductionVariants"]
    assert (variant["InitialInstanceCount"], variant["InitialVariantWeight"]) == (2, 0.0)
    assert isinstance(variant["InitialVariantWeight"], float)
    assert request["DataCaptureConfig"]["EnableCapture"] is True
    assert "NotOfTheApi" not in request


def test_an_unknown_property_inside_is_refused_by_its_path() -> None:
    with pytest.raises(LocalStackError, match=r"CreateModel\.PrimaryContainer: got Imag; allowed: .*Image"):
        request_of({"PrimaryContainer": {"Imag": "x"}}, "CreateModel")


@pytest.mark.parametrize("stack", ["s", "streamhub-dev-recommendation-ranker" * 3])
def test_generated_names_fit_sagemaker_and_differ(stack: str) -> None:
    names = {generated_name(stack, "SlotsConfig53565632") for _ in range(50)}
    assert len(names) == 50
    assert all(len(name) <= 63 and name[0].isalnum() for name in names)


def test_a_model_is_named_after_its_stack_and_deleted_by_that_name(wired: Wired) -> None:
    model = wired.types["AWS::SageMaker::Model"]
    wired.sagemaker.add_response(
        "create_model", {"ModelArn": f"{ARN}:model/m1"}, {"ModelName": ANY, "ExecutionRoleArn": ANY}
    )
    wired.sagemaker.add_response("delete_model", {}, {"ModelName": "m1"})
    physical, attributes = model.create("M", {"ExecutionRoleArn": "arn:aws:iam::123456789012:role/r"}, "stack")
    assert physical == f"{ARN}:model/m1"
    assert attributes["ModelName"].startswith("stack-M-")
    model.delete(physical, {})


def test_what_a_deleted_model_leaves_is_no_error_twice(wired: Wired) -> None:
    wired.sagemaker.add_client_error("delete_model", "ValidationException", 'Could not find model "m".')
    wired.types["AWS::SageMaker::Model"].delete(f"{ARN}:model/m", {})


def test_every_property_of_an_endpoint_config_but_its_tags_makes_a_new_one(wired: Wired) -> None:
    replacing = wired.types["AWS::SageMaker::EndpointConfig"].replacing
    assert {"ProductionVariants", "DataCaptureConfig", "KmsKeyId", "EndpointConfigName"} <= set(replacing)
    assert "Tags" not in replacing


def test_an_endpoint_is_made_when_it_is_in_service(wired: Wired) -> None:
    wired.sagemaker.add_response(
        "create_endpoint", {"EndpointArn": f"{ARN}:endpoint/e"}, {"EndpointName": "e", "EndpointConfigName": "c1"}
    )
    for status in ("Creating", "Creating", "InService"):
        wired.sagemaker.add_response("describe_endpoint", described(status), {"EndpointName": "e"})
    physical, attributes = wired.types["AWS::SageMaker::Endpoint"].create(
        "E", {"EndpointName": "e", "EndpointConfigName": "c1", "RetainAllVariantProperties": True}, "stack"
    )
    assert (physical, attributes["EndpointName"]) == (f"{ARN}:endpoint/e", "e")


def test_an_endpoint_that_fails_says_why_and_is_gone(wired: Wired) -> None:
    wired.sagemaker.add_response("create_endpoint", {"EndpointArn": f"{ARN}:endpoint/e"})
    wired.sagemaker.add_response("describe_endpoint", described("Failed", FailureReason="no such archive"))
    wired.sagemaker.add_response("delete_endpoint", {}, {"EndpointName": "e"})
    wired.sagemaker.add_client_error("describe_endpoint", "ValidationException", 'Could not find endpoint "e".')
    with pytest.raises(LocalStackError, match="no such archive"):
        wired.types["AWS::SageMaker::Endpoint"].create("E", {"EndpointName": "e", "EndpointConfigName": "c"}, "s")


def test_a_new_config_is_an_update_that_keeps_weights_where_the_template_says_so(wired: Wired) -> None:
    new = {"EndpointName": "e", "EndpointConfigName": "c2", "RetainAllVariantProperties": "true", "Tags": []}
    wired.sagemaker.add_response(
        "update_endpoint",
        {"EndpointArn": f"{ARN}:endpoint/e"},
        {"EndpointName": "e", "EndpointConfigName": "c2", "RetainAllVariantProperties": True},
    )
    for status in ("Updating", "InService", "InService"):
        wired.sagemaker.add_response("describe_endpoint", described(status, config="c2"))
    endpoint = wired.types["AWS::SageMaker::Endpoint"]
    physical, _ = endpoint.update(f"{ARN}:endpoint/e", {**new, "EndpointConfigName": "c1"}, new)
    assert physical == f"{ARN}:endpoint/e"


def test_an_update_that_rolled_back_fails_the_stack(wired: Wired) -> None:
    wired.sagemaker.add_response("update_endpoint", {"EndpointArn": f"{ARN}:endpoint/e"})
    for _ in range(2):
        wired.sagemaker.add_response("describe_endpoint", described("InService", config="c1"))
    with pytest.raises(LocalStackError, match="rolled back to c1"):
        wired.types["AWS::SageMaker::Endpoint"].update(
            f"{ARN}:endpoint/e", {"EndpointConfigName": "c1"}, {"EndpointConfigName": "c2"}
        )


def test_a_scalable_target_is_known_by_its_three_keys(wired: Wired) -> None:
    target = wired.types["AWS::ApplicationAutoScaling::ScalableTarget"]
    properties = {
        "ServiceNamespace": "sagemaker",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "ResourceId": "endpoint/e/variant/a",
        "MinCapacity": 1,
        "MaxCapacity": "2",
    }
    wired.scaling.add_response("register_scalable_target", {}, {**properties, "MaxCapacity": 2})
    wired.scaling.add_client_error("deregister_scalable_target", "ObjectNotFoundException", "gone")
    assert target.create("T", properties, "s")[0] == REFERENCE
    target.delete(REFERENCE, properties)


def test_a_target_keeps_the_scheduled_actions_of_its_template_and_no_others(wired: Wired) -> None:
    target = wired.types["AWS::ApplicationAutoScaling::ScalableTarget"]
    keys = dict(zip(("ResourceId", "ScalableDimension", "ServiceNamespace"), REFERENCE.split("|"), strict=True))
    bounds = {"MinCapacity": 1, "MaxCapacity": 2}
    evening, night = (
        {"ScheduledActionName": name, "Schedule": "cron(30 17 ? * * *)", "ScalableTargetAction": {"MinCapacity": "2"}}
        for name in ("evening", "night")
    )
    asked = {**keys, **evening, "ScalableTargetAction": {"MinCapacity": 2}}
    first, then = ({**keys, **bounds, "ScheduledActions": actions} for actions in ([evening, night], [evening]))
    for actions in ([asked, {**asked, "ScheduledActionName": "night"}], [asked]):
        wired.scaling.add_response("register_scalable_target", {}, {**keys, **bounds})
        for action in actions:
            wired.scaling.add_response("put_scheduled_action", {}, action)
    wired.scaling.add_response("delete_scheduled_action", {}, {**keys, "ScheduledActionName": "night"})
    reference, _ = target.create("T", first, "s")
    target.update(reference, first, then)


def test_a_policy_finds_its_target_by_reference(wired: Wired) -> None:
    policy = wired.types["AWS::ApplicationAutoScaling::ScalingPolicy"]
    tracking = {
        "TargetValue": "8",
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
        },
    }
    keys = {
        "ServiceNamespace": "sagemaker",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "ResourceId": "endpoint/e/variant/a",
    }
    wired.scaling.add_response(
        "put_scaling_policy",
        {"PolicyARN": "arn:policy"},
        {
            **keys,
            "PolicyName": "p",
            "PolicyType": "TargetTrackingScaling",
            "TargetTrackingScalingPolicyConfiguration": {**tracking, "TargetValue": 8.0},
        },
    )
    wired.scaling.add_response("delete_scaling_policy", {}, {**keys, "PolicyName": "p"})
    properties = {
        "PolicyName": "p",
        "PolicyType": "TargetTrackingScaling",
        "ScalingTargetId": REFERENCE,
        "TargetTrackingScalingPolicyConfiguration": tracking,
    }
    assert policy.create("P", properties, "s")[0] == "arn:policy"
    policy.delete("arn:policy", properties)


def test_the_cache_is_known_to_elasticache_and_stands_where_the_real_valkey_is(wired: Wired) -> None:
    cache = wired.types["AWS::ElastiCache::ServerlessCache"]
    address = {"Address": "127.0.0.1", "Port": 6399}
    known = {
        "ServerlessCacheName": "features",
        "ARN": "arn:cache",
        "Status": "available",
        "Endpoint": address,
        "ReaderEndpoint": address,
    }
    wired.cache.add_response(
        "create_serverless_cache",
        {"ServerlessCache": known},
        {"ServerlessCacheName": "features", "Engine": "valkey"},
    )
    wired.cache.add_response("delete_serverless_cache", {"ServerlessCache": known})
    wired.cache.add_client_error("delete_serverless_cache", "ServerlessCacheNotFoundFault", "gone")
    name, attributes = cache.create("C", {"ServerlessCacheName": "features", "Engine": "valkey"}, "s")
    assert name == "features"
    assert (attributes["Endpoint.Address"], attributes["Endpoint.Port"]) == ("127.0.0.1", "6399")
    cache.delete(name, {})
    cache.delete(name, {})
