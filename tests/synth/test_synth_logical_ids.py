"""What holds data, or a name that people use, keeps its logical id: another id is another resource, made anew.

The list is kept by hand. An entry changes only with a plan for what is in the resource (docs/deploy.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

# slots, or components, a and b of one endpoint
_TWO = {
    "Endpoint8024A810": "AWS::SageMaker::Endpoint",
    "ScalingATarget15943C9D": "AWS::ApplicationAutoScaling::ScalableTarget",
    "ScalingBTargetDEB3436C": "AWS::ApplicationAutoScaling::ScalableTarget",
}
# stack part → logical id → type, of all stages together: what a stage has keeps the id that others have for it
PINNED: Mapping[str, Mapping[str, str]] = {
    "api": {
        "HttpApi4E1D4184": "AWS::ApiGatewayV2::Api",
        "ServiceTaskCountTargetDF7542A8": "AWS::ApplicationAutoScaling::ScalableTarget",
        "StateTable962DE04C": "AWS::DynamoDB::Table",
        "ServiceCluster572F72F1": "AWS::ECS::Cluster",
        "Service9571FDD8": "AWS::ECS::Service",
        "ServiceBalancerA595F783": "AWS::ElasticLoadBalancingV2::LoadBalancer",
        "HttpAccessLogs1CB64BE3": "AWS::Logs::LogGroup",
        "PredictLogsBEA51BD8": "AWS::Logs::LogGroup",
        "ServiceLogs205D48C6": "AWS::Logs::LogGroup",
    },
    "content-moderator": {**_TWO, "ContainerLogsEndpoint4EE69FA5": "AWS::Logs::LogGroup"},
    "features": {
        "CacheReplicatedFA273F97": "AWS::ElastiCache::ReplicationGroup",
        "CacheServerlessB4693E6C": "AWS::ElastiCache::ServerlessCache",
        "CacheSubnets75A36213": "AWS::ElastiCache::SubnetGroup",
        "CacheUser72FA2B22": "AWS::ElastiCache::User",
        "CacheUsersB25699B6": "AWS::ElastiCache::UserGroup",
    },
    "monitoring": {
        "AlertsKey9E1197AF": "AWS::KMS::Key",
        "AlertsTopicCF7C81C9": "AWS::SNS::Topic",
    },
    "network": {
        "NetworkVpcisolatedSubnet1Subnet188D06DD": "AWS::EC2::Subnet",
        "NetworkVpcisolatedSubnet2Subnet811E27B8": "AWS::EC2::Subnet",
        "NetworkVpcisolatedSubnet3Subnet8C51A120": "AWS::EC2::Subnet",
        "NetworkVpc7FB7348F": "AWS::EC2::VPC",
        "NetworkVpcDynamoDbCF49C09B": "AWS::EC2::VPCEndpoint",
        "NetworkVpcEcrDBC18444": "AWS::EC2::VPCEndpoint",
        "NetworkVpcEcrDocker3B9231AE": "AWS::EC2::VPCEndpoint",
        "NetworkVpcLogs87827AD6": "AWS::EC2::VPCEndpoint",
        "NetworkVpcS334FC449B": "AWS::EC2::VPCEndpoint",
        "NetworkVpcSageMakerRuntime180209FC": "AWS::EC2::VPCEndpoint",
        "NetworkFlowLogGroup4F8CEEEF": "AWS::Logs::LogGroup",
    },
    "recommendation-ranker": {**_TWO, "ContainerLogsEndpoint4EE69FA5": "AWS::Logs::LogGroup"},
    "registry": {
        "ImagesRepository2D0F5B9C": "AWS::ECR::Repository",
        "DataKeyAliasBD63605D": "AWS::KMS::Alias",
        "DataKey2A0DE9E6": "AWS::KMS::Key",
        "AccessLogsBucketCD784A59": "AWS::S3::Bucket",
        "RegistryBucket9C3667AF": "AWS::S3::Bucket",
        "TelemetryBucketFB1718EF": "AWS::S3::Bucket",
    },
    "release": {
        "DriftLogsBBEDFA1D": "AWS::Logs::LogGroup",
        "ReleaseLogsB9EA69B0": "AWS::Logs::LogGroup",
        "FailuresQueueB0898B50": "AWS::SQS::Queue",
    },
    "support-rag": {
        **_TWO,
        "ContainerLogsAE17979D8": "AWS::Logs::LogGroup",
        "ContainerLogsBCE8A82CE": "AWS::Logs::LogGroup",
        "ComponentAComponent530D035A": "AWS::SageMaker::InferenceComponent",
        "ComponentBComponent8A33DFD0": "AWS::SageMaker::InferenceComponent",
    },
    "thumbnail-scorer": {
        **_TWO,
        "ContainerLogsEndpoint4EE69FA5": "AWS::Logs::LogGroup",
        "BatchContainerLogsEndpoint61E74731": "AWS::Logs::LogGroup",
        "BatchScalingTarget91571B8F": "AWS::ApplicationAutoScaling::ScalableTarget",
        "BatchEndpoint2EF48BCD": "AWS::SageMaker::Endpoint",
    },
}
TYPES = {kind for ids in PINNED.values() for kind in ids.values()}
STAGES = ("dev", "staging", "prod", "tasks")


def kept(stage: Any) -> dict[tuple[str, str], str]:
    return {(found.part, found.id): found.entry["Type"] for found in stage.everything() if found.entry["Type"] in TYPES}


@pytest.mark.parametrize("name", STAGES)
def test_every_stateful_resource_has_the_id_it_always_had(name: str, request: pytest.FixtureRequest) -> None:
    found = kept(request.getfixturevalue(name))
    assert found
    unknown = {place for place, kind in found.items() if PINNED.get(place[0], {}).get(place[1]) != kind}
    assert not unknown, "CloudFormation would make it anew and drop the old one"


def test_nothing_that_is_pinned_has_gone(request: pytest.FixtureRequest) -> None:
    found = {place for name in STAGES for place in kept(request.getfixturevalue(name))}
    assert found == {(part, logical_id) for part, ids in PINNED.items() for logical_id in ids}


@pytest.mark.parametrize("name", STAGES)
def test_every_type_that_preflight_calls_stateful_is_pinned(name: str, request: pytest.FixtureRequest) -> None:
    from serving.preflight.stateful import CREATE_ONLY  # noqa: PLC0415 - only this test needs it

    kinds = {found.entry["Type"] for found in request.getfixturevalue(name).everything()}
    assert kinds & set(CREATE_ONLY) <= TYPES
