"""Resources that hold data, traffic or an address, and the changes that would replace or delete them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from serving.preflight.finding import Finding
from serving.preflight.templates import Resource, resources_of

CREATE_ONLY: Final[Mapping[str, tuple[str, ...]]] = {
    "AWS::ApiGatewayV2::Api": ("ProtocolType",),
    "AWS::DynamoDB::Table": ("ImportSourceSpecification", "TableName"),
    "AWS::EC2::VPC": ("CidrBlock", "Ipv4IpamPoolId", "Ipv4NetmaskLength", "VpcEncryptionControl"),
    "AWS::ElastiCache::ReplicationGroup": (
        "AtRestEncryptionEnabled",
        "CacheSubnetGroupName",
        "DataTieringEnabled",
        "GlobalReplicationGroupId",
        "KmsKeyId",
        "NetworkType",
        "Port",
        "PreferredCacheClusterAZs",
        "ReplicationGroupId",
        "SnapshotArns",
        "SnapshotName",
    ),
    "AWS::ElastiCache::ServerlessCache": (
        "ConnectionType",
        "KmsKeyId",
        "NetworkType",
        "ServerlessCacheName",
        "SnapshotArnsToRestore",
        "SubnetIds",
    ),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": ("Name", "Scheme", "Type"),
    "AWS::KMS::Key": (),
    "AWS::Logs::LogGroup": ("LogGroupName",),
    "AWS::S3::Bucket": ("BucketName", "BucketNamePrefix", "BucketNamespace"),
    "AWS::SNS::Topic": ("FifoTopic", "TopicName"),
    "AWS::SageMaker::Endpoint": ("EndpointName",),
    "AWS::SageMaker::InferenceComponent": (),
}
"""By type: the properties of which any change makes a new one (CloudFormation's schemas, `createOnlyProperties`)."""

_KEPT = {"Retain", "RetainExceptOnCreate"}


def lost_resources(stack: str, *, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Finding]:
    """Say which stateful resources of `before` would be deleted or replaced by `after`."""
    new = {resource.id: resource for resource in resources_of(stack, after)}
    for old in resources_of(stack, before):
        if old.kind in CREATE_ONLY:
            yield from _fate(old, new.get(old.id))


def _fate(old: Resource, new: Resource | None) -> Iterator[Finding]:
    if new is None or new.kind != old.kind:
        yield _removed(old)
        return
    changed = [name for name in CREATE_ONLY[old.kind] if old.properties.get(name) != new.properties.get(name)]
    if changed:
        yield Finding(
            level="error",
            check="stateful",
            what=old.path,
            got=f"replaced: {', '.join(changed)} changes",
            allowed="the value it was made with",
            fix=f"put it back, or make a second resource beside it and move over; the old one is "
            f"{'left behind' if old.deletion_policy in _KEPT else 'deleted'}",
            source="CloudFormation reference, Update requires: Replacement",
            destructive=True,
        )


def _removed(old: Resource) -> Finding:
    kept = old.deletion_policy in _KEPT
    return Finding(
        level="warning" if kept else "error",
        check="stateful",
        what=old.path,
        got="in the stack, and no longer in the template" + (": it stays, in nobody's stack" if kept else ""),
        allowed="a stateful resource that stays in its stack",
        fix="keep its logical id"
        + (
            "; else import or delete it by hand"
            if kept
            else "; else empty it first and deploy knowing that it is deleted"
        ),
        source="CloudFormation reference, DeletionPolicy",
        destructive=not kept,
    )
