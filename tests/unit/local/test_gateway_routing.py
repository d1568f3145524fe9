"""Requests are signed by botocore, so where they go is decided on what real clients send."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse

from local.routing import service_of

CALLS = [
    ("sagemaker", "list_endpoints", {}, "sagemaker"),
    ("sagemaker", "describe_endpoint", {"EndpointName": "e"}, "sagemaker"),
    ("sagemaker-runtime", "invoke_endpoint", {"EndpointName": "e", "Body": b"{}"}, "sagemaker"),
    ("application-autoscaling", "describe_scalable_targets", {"ServiceNamespace": "sagemaker"}, "scaling"),
    ("s3", "list_objects_v2", {"Bucket": "endpoints"}, "other"),
    ("s3", "get_object", {"Bucket": "endpoints", "Key": "x/invocations"}, "other"),
    ("dynamodb", "list_tables", {}, "other"),
    ("cloudformation", "describe_stacks", {}, "other"),
    ("cloudwatch", "describe_alarms", {}, "other"),
    ("lambda", "list_functions", {}, "other"),
    ("autoscaling", "describe_auto_scaling_groups", {}, "other"),
]


class CaughtError(Exception):
    """Carries the request that a client was about to send."""

    def __init__(self, request: Any) -> None:
        self.request = request


def scope_of_call(service: str, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
    client = boto3.client(
        service,
        endpoint_url="http://127.0.0.1:1",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - nothing is sent
    )

    def catch(request: Any, **_: Any) -> AWSResponse:
        raise CaughtError(request)

    client.meta.events.register("before-send", catch)
    with pytest.raises(CaughtError) as caught:
        getattr(client, operation)(**parameters)
    request = caught.value.request
    path = request.url.removeprefix("http://127.0.0.1:1").partition("?")[0] or "/"
    headers = [
        (key.lower().encode(), value if isinstance(value, bytes) else str(value).encode())
        for key, value in request.headers.items()
    ]
    return {"type": "http", "method": request.method, "path": path, "headers": headers}


@pytest.mark.parametrize(("service", "operation", "parameters", "expected"), CALLS)
def test_what_botocore_signs_reaches_its_service(
    service: str, operation: str, parameters: dict[str, Any], expected: str
) -> None:
    scope = scope_of_call(service, operation, parameters)
    assert service_of(scope) == {"scaling": "application-autoscaling"}.get(expected, expected)


@pytest.mark.parametrize(
    ("path", "headers", "expected"),
    [
        ("/endpoints/e/invocations", [], "sagemaker"),
        ("/endpoints/e/other", [], "other"),
        ("/", [(b"x-amz-target", b"SageMaker.ListModels")], "sagemaker"),
        ("/", [(b"x-amz-target", b"AnyScaleFrontendService.PutScalingPolicy")], "application-autoscaling"),
        ("/_streamhub", [], "page"),
        ("/_streamhubs", [], "other"),
        ("/_ministack/health", [], "other"),
    ],
)
def test_unsigned_requests_go_by_target_and_path(path: str, headers: list[tuple[bytes, bytes]], expected: str) -> None:
    assert service_of({"type": "http", "method": "POST", "path": path, "headers": headers}) == expected
