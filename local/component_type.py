"""`AWS::SageMaker::InferenceComponent`: created, changed in place and removed, each waited for."""

from __future__ import annotations

import time
from typing import Any

from botocore.exceptions import ClientError

from local.template_types import (
    Created,
    Properties,
    ResourceType,
    call,
    generated_name,
    is_missing,
    name_of,
    request_of,
)
from serving.errors import LocalStackError

_POLL_S = 0.1
_STEADY_TIMEOUT_S = 300.0


def component_type(client: Any) -> ResourceType:  # noqa: ANN401 - boto3 makes clients at run time
    """Give the type over a SageMaker client."""
    components = _Components(client)
    return ResourceType(
        create=components.create,
        update=components.update,
        delete=components.delete,
        replacing=("InferenceComponentName", "EndpointName", "VariantName"),
    )


class _Components:
    def __init__(self, client: Any) -> None:  # noqa: ANN401 - boto3 makes clients at run time
        self._client = client

    def create(self, logical_id: str, properties: Properties, stack: str) -> Created:
        """Create it and wait until it is in service; the policy in its properties is for updates alone."""
        named = {"InferenceComponentName": generated_name(stack, logical_id), **properties}
        request = request_of(named, "CreateInferenceComponent")
        arn = str(call(self._client, "CreateInferenceComponent", **request)["InferenceComponentArn"])
        try:
            self._until_in_service(name_of(arn))
        except LocalStackError:
            self.delete(arn, properties)  # a stack rolls back only what it got an id of
            raise
        return arn, self._attributes(arn)

    def update(self, physical_id: str, _old: Properties, new: Properties) -> Created:
        """Change it and wait until it is in service again."""
        named = {**new, "InferenceComponentName": name_of(physical_id)}
        call(self._client, "UpdateInferenceComponent", **request_of(named, "UpdateInferenceComponent"))
        described = self._until_in_service(name_of(physical_id))
        if "FailureReason" in described:
            raise LocalStackError(f"inference component {name_of(physical_id)}: {described['FailureReason']}")
        return physical_id, self._attributes(physical_id)

    def delete(self, physical_id: str, _properties: Properties) -> None:
        """Delete it and wait until it is gone, since its endpoint is deleted next."""
        name = name_of(physical_id)
        deadline = time.monotonic() + _STEADY_TIMEOUT_S
        try:
            call(self._client, "DeleteInferenceComponent", InferenceComponentName=name)
            while time.monotonic() < deadline:
                call(self._client, "DescribeInferenceComponent", InferenceComponentName=name)
                time.sleep(_POLL_S)
        except ClientError as error:
            if is_missing(error):
                return
            raise
        raise LocalStackError(f"inference component {name}: still there {_STEADY_TIMEOUT_S:.0f} s after its deletion")

    def _until_in_service(self, name: str) -> dict[str, Any]:
        deadline = time.monotonic() + _STEADY_TIMEOUT_S
        while time.monotonic() < deadline:
            described = call(self._client, "DescribeInferenceComponent", InferenceComponentName=name)
            status = described["InferenceComponentStatus"]
            if status == "InService":
                return described
            if status == "Failed":
                raise LocalStackError(f"inference component {name}: Failed: {described.get('FailureReason', '')}")
            time.sleep(_POLL_S)
        raise LocalStackError(f"inference component {name}: not in service after {_STEADY_TIMEOUT_S:.0f} s")

    def _attributes(self, arn: str) -> dict[str, str]:
        return {"InferenceComponentArn": arn, "InferenceComponentName": name_of(arn), "Id": arn}
