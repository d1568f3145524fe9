"""The CloudFormation resource types of the dev stage that ministack lacks, each told to our services by plain boto3.

Nothing here knows ministack: a type has create, update and delete, and says which properties replace it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from local.component_type import component_type
from local.scaling_types import scaling_types
from local.template_types import (
    Created,
    Properties,
    ResourceType,
    call,
    generated_name,
    input_of,
    is_missing,
    name_of,
    request_of,
)
from serving.errors import LocalStackError

_POLL_S = 0.1
_STEADY_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the services answer."""

    endpoint_url: str
    region: str


def resource_types(target: Target) -> dict[str, ResourceType]:
    """Give the types, wired to the services at `target`."""
    sagemaker = _SageMaker(client("sagemaker", target))
    cache = _ServerlessCache(client("elasticache", target))
    return {
        "AWS::SageMaker::Model": sagemaker.immutable("Model", "CreateModel"),
        "AWS::SageMaker::EndpointConfig": sagemaker.immutable("EndpointConfig", "CreateEndpointConfig"),
        "AWS::SageMaker::Endpoint": ResourceType(
            create=sagemaker.create_endpoint,
            update=sagemaker.update_endpoint,
            delete=sagemaker.delete_endpoint,
            replacing=("EndpointName",),
        ),
        "AWS::SageMaker::InferenceComponent": component_type(sagemaker.client),
        **scaling_types(client("application-autoscaling", target)),
        "AWS::ElastiCache::ServerlessCache": ResourceType(
            create=cache.create,
            update=cache.update,
            delete=cache.delete,
            replacing=("ServerlessCacheName", "Engine", "SubnetIds", "KmsKeyId"),
        ),
    }


class _SageMaker:
    def __init__(self, client: Any) -> None:  # noqa: ANN401 - boto3 makes clients at run time
        self.client = client

    def immutable(self, kind: str, operation: str) -> ResourceType:
        """Give a type of which every property but the tags makes a new one."""
        name_key = f"{kind}Name"
        members = tuple(input_of(operation, "sagemaker").members)

        def create(logical_id: str, properties: Properties, stack: str) -> Created:
            named = {name_key: generated_name(stack, logical_id), **properties}
            arn = self._call(operation, **request_of(named, operation))[f"{kind}Arn"]
            return arn, {name_key: named[name_key], "Id": arn}

        def update(physical_id: str, _old: Properties, _new: Properties) -> Created:
            return physical_id, {name_key: name_of(physical_id), "Id": physical_id}

        def delete(physical_id: str, _properties: Properties) -> None:
            self._forget(f"Delete{kind}", **{name_key: name_of(physical_id)})

        return ResourceType(
            create=create,
            update=update,
            delete=delete,
            replacing=tuple(member for member in members if member != "Tags"),
        )

    def create_endpoint(self, logical_id: str, properties: Properties, stack: str) -> Created:
        """Create it and wait until it is in service."""
        named = {"EndpointName": generated_name(stack, logical_id), **properties}
        arn = self._call("CreateEndpoint", **request_of(named, "CreateEndpoint"))["EndpointArn"]
        try:
            self._until_in_service(named["EndpointName"])
        except LocalStackError:
            self.delete_endpoint(arn, properties)  # a stack rolls back only what it got an id of
            raise
        return arn, _endpoint_attributes(arn)

    def update_endpoint(self, physical_id: str, _old: Properties, new: Properties) -> Created:
        """Move it to its new config, as UpdateEndpoint does, and wait until it is in service."""
        name = name_of(physical_id)
        request = request_of({**new, "EndpointName": name}, "UpdateEndpoint")
        self._call("UpdateEndpoint", **request)
        self._until_in_service(name)
        serving = self._call("DescribeEndpoint", EndpointName=name)["EndpointConfigName"]
        if serving != request["EndpointConfigName"]:
            raise LocalStackError(f"endpoint {name}: the update was rolled back to {serving}; see the gateway's log")
        return physical_id, _endpoint_attributes(physical_id)

    def delete_endpoint(self, physical_id: str, _properties: Properties) -> None:
        """Delete it and wait until it is gone, since its config is deleted next."""
        name = name_of(physical_id)
        self._forget("DeleteEndpoint", EndpointName=name)
        deadline = time.monotonic() + _STEADY_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                self._call("DescribeEndpoint", EndpointName=name)
            except ClientError as error:
                if is_missing(error):
                    return
                raise
            time.sleep(_POLL_S)
        raise LocalStackError(f"endpoint {name}: still there {_STEADY_TIMEOUT_S:.0f} s after its deletion")

    def _until_in_service(self, name: str) -> None:
        deadline = time.monotonic() + _STEADY_TIMEOUT_S
        while time.monotonic() < deadline:
            endpoint = self._call("DescribeEndpoint", EndpointName=name)
            status = endpoint["EndpointStatus"]
            if status == "InService":
                return
            if status in {"Failed", "UpdateRollbackFailed"}:
                raise LocalStackError(f"endpoint {name}: {status}: {endpoint.get('FailureReason', 'no reason given')}")
            time.sleep(_POLL_S)
        raise LocalStackError(f"endpoint {name}: not in service after {_STEADY_TIMEOUT_S:.0f} s")

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - as botocore takes them
        return call(self.client, operation, **parameters)

    def _forget(self, operation: str, **parameters: str) -> None:
        try:
            self._call(operation, **parameters)
        except ClientError as error:
            if not is_missing(error):
                raise


class _ServerlessCache:
    """A cache that ElastiCache knows, at the one Valkey server of the stack: plain text, since that one has no TLS."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - boto3 makes clients at run time
        self._client = client

    def create(self, logical_id: str, properties: Properties, stack: str) -> Created:
        """Make it known; its address is that of the server that runs already."""
        named = {"ServerlessCacheName": generated_name(stack, logical_id), **properties}
        request = request_of(named, "CreateServerlessCache", service="elasticache")
        return _cache(self._client.create_serverless_cache(**request)["ServerlessCache"])

    def update(self, physical_id: str, _old: Properties, _new: Properties) -> Created:
        """Keep the address: limits are not enforced here."""
        found = self._client.describe_serverless_caches(ServerlessCacheName=physical_id)["ServerlessCaches"]
        return _cache(found[0])

    def delete(self, physical_id: str, _properties: Properties) -> None:
        """Forget it; the server itself ends with the stack, by its supervisor."""
        try:
            self._client.delete_serverless_cache(ServerlessCacheName=physical_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ServerlessCacheNotFoundFault":
                raise


def _cache(found: Mapping[str, Any]) -> Created:
    attributes = {"ARN": found["ARN"], "Status": found["Status"]}
    for name in ("Endpoint", "ReaderEndpoint"):
        attributes |= {f"{name}.{key}": str(found[name][key]) for key in ("Address", "Port")}
    return found["ServerlessCacheName"], attributes


def client(service: str, target: Target, *, patience_s: float = 60.0) -> Any:  # noqa: ANN401 - boto3 makes clients at run time
    """Give a client of the services at `target` that waits so long for an answer, twice."""
    config = Config(read_timeout=patience_s, connect_timeout=3, retries={"total_max_attempts": 2, "mode": "standard"})
    return boto3.client(  # type: ignore[call-overload]
        service,
        endpoint_url=target.endpoint_url,
        region_name=target.region,
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - the local stack checks none
        config=config,
    )


def _endpoint_attributes(arn: str) -> dict[str, str]:
    return {"EndpointName": name_of(arn), "Id": arn}
