"""The CloudFormation resource types of Application Auto Scaling, told to our service by plain boto3."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from local.template_types import Created, Properties, ResourceType, call, request_of

_SERVICE = "application-autoscaling"
_KEYS = ("ResourceId", "ScalableDimension", "ServiceNamespace")


def scaling_types(client: Any) -> dict[str, ResourceType]:  # noqa: ANN401 - boto3 makes clients at run time
    """Give the types of scalable targets and policies."""
    scaling = _Scaling(client)
    return {
        "AWS::ApplicationAutoScaling::ScalableTarget": ResourceType(
            create=scaling.create_target,
            update=scaling.update_target,
            delete=scaling.delete_target,
            replacing=("ResourceId", "ScalableDimension", "ServiceNamespace"),
        ),
        "AWS::ApplicationAutoScaling::ScalingPolicy": ResourceType(
            create=scaling.create_policy,
            update=scaling.update_policy,
            delete=scaling.delete_policy,
            replacing=("PolicyName", "ResourceId", "ScalableDimension", "ScalingTargetId", "ServiceNamespace"),
        ),
    }


class _Scaling:
    def __init__(self, client: Any) -> None:  # noqa: ANN401 - boto3 makes clients at run time
        self._client = client

    def create_target(self, _logical_id: str, properties: Properties, _stack: str) -> Created:
        """Register it with its scheduled actions; its id is AWS's: resource, dimension, namespace between bars."""
        self._request("RegisterScalableTarget", properties)
        self._schedule(properties)
        ref = "|".join(properties[key] for key in _KEYS)
        return ref, {"Id": ref}

    def update_target(self, physical_id: str, old: Properties, new: Properties) -> Created:
        """Register it again, which changes its bounds; scheduled actions that it no longer has go."""
        self._request("RegisterScalableTarget", new)
        kept = self._schedule(new)
        for action in old.get("ScheduledActions", ()):
            if action["ScheduledActionName"] not in kept:
                self._forget("DeleteScheduledAction", {**_target_keys(physical_id), **action})
        return physical_id, {"Id": physical_id}

    def delete_target(self, physical_id: str, _properties: Properties) -> None:
        """Deregister it."""
        self._forget("DeregisterScalableTarget", _target_keys(physical_id))

    def _schedule(self, properties: Properties) -> frozenset[str]:
        """Put the scheduled actions of a target and give their names."""
        keys = {key: properties[key] for key in _KEYS}
        actions = properties.get("ScheduledActions", ())
        for action in actions:
            self._request("PutScheduledAction", {**keys, **action})
        return frozenset(action["ScheduledActionName"] for action in actions)

    def create_policy(self, _logical_id: str, properties: Properties, _stack: str) -> Created:
        """Put it; its id is its ARN."""
        arn = self._request("PutScalingPolicy", _with_target(properties))["PolicyARN"]
        return arn, {"Arn": arn}

    def update_policy(self, physical_id: str, _old: Properties, new: Properties) -> Created:
        """Put it again."""
        self._request("PutScalingPolicy", _with_target(new))
        return physical_id, {"Arn": physical_id}

    def delete_policy(self, _physical_id: str, properties: Properties) -> None:
        """Delete it."""
        self._forget("DeleteScalingPolicy", _with_target(properties))

    def _request(self, operation: str, properties: Properties) -> dict[str, Any]:
        request = request_of(properties, operation, service=_SERVICE)
        return call(self._client, operation, **request)

    def _forget(self, operation: str, properties: Properties) -> None:
        try:
            self._request(operation, properties)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ObjectNotFoundException":
                raise


def _target_keys(reference: str) -> dict[str, str]:
    resource, dimension, namespace = reference.split("|")
    return {"ResourceId": resource, "ScalableDimension": dimension, "ServiceNamespace": namespace}


def _with_target(properties: Properties) -> dict[str, Any]:
    """Give a policy's properties with the target's three keys, which `ScalingTargetId` stands for."""
    reference = properties.get("ScalingTargetId")
    return {**(_target_keys(reference) if reference is not None else {}), **properties}
