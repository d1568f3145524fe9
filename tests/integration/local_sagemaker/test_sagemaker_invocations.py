from __future__ import annotations

import base64
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.sagemaker.options import LARGE_PAYLOAD_BYTES

CAPTURE = {
    "EnableCapture": True,
    "InitialSamplingPercentage": 100,
    "DestinationS3Uri": "s3://models/capture",
    "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
}


@pytest.fixture(name="endpoint")
def endpoint_fixture(aws: Any) -> str:
    """Give an endpoint of one variant."""
    name: str = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
    return name


def failed(call: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return caught.value.response  # type: ignore[return-value]


def lines(aws: Any, endpoint: str, prefix: str = "capture") -> list[tuple[str, dict[str, Any]]]:
    aws.flush()
    listed = aws.s3.list_objects_v2(Bucket="models", Prefix=f"{prefix}/{endpoint}/").get("Contents", [])
    return [
        (entry["Key"], json.loads(line))
        for entry in listed
        for line in aws.s3.get_object(Bucket="models", Key=entry["Key"])["Body"].read().splitlines()
    ]


@pytest.mark.parametrize("status", [400, 500, 503])
def test_a_containers_error_is_a_model_error_with_what_it_said(aws: Any, endpoint: str, status: int) -> None:
    body = json.dumps({"status": status, "say": "queue full"})
    response = failed(aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=body, ContentType="application/json")
    kind = "client" if status == 400 else "server"
    assert response["Error"]["Code"] == "ModelError"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert response["OriginalStatusCode"] == status
    assert response["OriginalMessage"] == "queue full"
    assert response["Error"]["Message"].startswith(
        f'Received {kind} error ({status}) from primary with message "queue full". See https://us-east-1.console.'
    )
    assert response["LogStreamArn"].endswith(f":log-group:/aws/sagemaker/Endpoints/{endpoint}")


def test_a_container_that_answers_too_late_is_a_model_error_of_status_0(start: Any) -> None:
    with start(invocation_timeout_s=0.2) as aws:
        endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
        response = failed(
            aws.runtime.invoke_endpoint,
            EndpointName=endpoint,
            Body=b'{"sleep_s": 5}',
            ContentType="application/json",
        )
    assert (response["Error"]["Code"], response["OriginalStatusCode"]) == ("ModelError", 0)
    assert "timed out" in response["Error"]["Message"]


def test_an_unknown_endpoint_or_variant_is_a_validation_error(aws: Any, endpoint: str) -> None:
    unknown = failed(aws.runtime.invoke_endpoint, EndpointName="none", Body=b"")
    variant = failed(aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=b"", TargetVariant="z")
    model = failed(aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=b"", TargetModel="m.tar.gz")
    for response in (unknown, variant, model):
        assert response["Error"]["Code"] == "ValidationError"
        assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert unknown["Error"]["Message"] == "Endpoint none of account 123456789012 not found."


@pytest.mark.parametrize(
    ("limit", "options"), [(6_291_456, {}), (25_000_000, {"max_payload_bytes": LARGE_PAYLOAD_BYTES})], ids=["6", "25"]
)
def test_a_body_above_the_limit_is_refused_and_one_at_it_passes(
    start: Any, limit: int, options: dict[str, int]
) -> None:
    with start(**options) as aws:
        endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
        passed = aws.runtime.invoke_endpoint(EndpointName=endpoint, Body=bytes(limit))
        refused = failed(aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=bytes(limit + 1))
        streamed = failed(
            aws.runtime.invoke_endpoint_with_response_stream, EndpointName=endpoint, Body=bytes(limit + 1)
        )
        assert json.loads(passed["Body"].read())["size"] == limit
    assert {each["ResponseMetadata"]["HTTPStatusCode"] for each in (refused, streamed)} == {413}


def test_many_callers_at_once_get_each_their_own_answer(aws: Any, endpoint: str) -> None:
    def ask(number: int) -> bool:
        body = json.dumps({"say": f"answer {number}" * (1 + number)})
        answer = aws.runtime.invoke_endpoint(EndpointName=endpoint, Body=body, ContentType="application/json")
        return bool(answer["Body"].read().decode() == f"answer {number}" * (1 + number))

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(200)))


def test_capture_writes_sagemakers_records_by_variant_and_hour(aws: Any) -> None:
    config = aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}, DataCaptureConfig=CAPTURE)
    endpoint = aws.endpoint(config)
    aws.invoke(endpoint, {"say": '{"y":1}'}, InferenceId="inference-7")
    ((key, record),) = lines(aws, endpoint)
    now = datetime.now(UTC)
    hours = {f"{moment:%Y/%m/%d/%H}" for moment in (now, now - timedelta(minutes=5))}
    assert key.startswith(tuple(f"capture/{endpoint}/a/{hour}/" for hour in hours))
    assert key.endswith(".jsonl")
    taken = datetime.fromisoformat(record["eventMetadata"].pop("inferenceTime"))
    assert abs(now - taken) < timedelta(minutes=5)
    assert record["eventMetadata"].pop("eventId")
    assert record == {
        "captureData": {
            "endpointInput": {
                "observedContentType": "application/json",
                "mode": "INPUT",
                "data": '{"say": "{\\"y\\":1}"}',
                "encoding": "JSON",
            },
            "endpointOutput": {
                "observedContentType": "application/json",
                "mode": "OUTPUT",
                "data": '{"y":1}',
                "encoding": "JSON",
            },
        },
        "eventMetadata": {"inferenceId": "inference-7"},
        "eventVersion": "0",
    }


def test_types_that_are_not_listed_are_captured_in_base64(aws: Any) -> None:
    capture = CAPTURE | {"DestinationS3Uri": "s3://models/binary", "CaptureOptions": [{"CaptureMode": "Input"}]}
    endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}, DataCaptureConfig=capture))
    kind = "application/vnd.sagemaker-triton.binary+json;json-header-size=2"
    aws.runtime.invoke_endpoint(EndpointName=endpoint, Body=b"{}\xff\x00", ContentType=kind)
    ((_, record),) = lines(aws, endpoint, prefix="binary")
    data = record["captureData"]
    assert set(data) == {"endpointInput"}
    assert data["endpointInput"]["observedContentType"] == kind
    assert data["endpointInput"]["encoding"] == "BASE64"
    assert base64.b64decode(data["endpointInput"]["data"]) == b"{}\xff\x00"


def test_capture_keeps_about_the_share_it_is_told_and_writes_the_rest_at_shutdown(start: Any) -> None:
    with start() as aws:
        capture = CAPTURE | {"InitialSamplingPercentage": 30, "DestinationS3Uri": "s3://models/sampled"}
        endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}, DataCaptureConfig=capture))
        for _ in range(200):
            aws.invoke(endpoint)
        summary = aws.sm.describe_endpoint(EndpointName=endpoint)["DataCaptureConfig"]
        keep = aws
    assert summary["CaptureStatus"] == "Started"
    assert summary["CurrentSamplingPercentage"] == 30
    listed = keep.s3.list_objects_v2(Bucket="models", Prefix=f"sampled/{endpoint}/")["Contents"]
    bodies = [keep.s3.get_object(Bucket="models", Key=entry["Key"])["Body"].read() for entry in listed]
    # 60 expected; 4 standard deviations each way
    assert 34 <= sum(body.count(b"\n") for body in bodies) <= 86


@pytest.mark.parametrize("options", [{"capture_flush_s": 0.05}, {"capture_flush_bytes": 1}], ids=["time", "size"])
def test_captured_lines_are_written_by_themselves(start: Any, options: dict[str, float]) -> None:
    with start(**options) as aws:
        capture = CAPTURE | {"DestinationS3Uri": "s3://models/unasked"}
        endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}, DataCaptureConfig=capture))
        aws.invoke(endpoint)
        written = aws.until(
            lambda: aws.s3.list_objects_v2(Bucket="models", Prefix=f"unasked/{endpoint}/").get("Contents")
        )
    assert len(written) == 1


def test_metrics_are_published_by_themselves(start: Any) -> None:
    with start(metrics_interval_s=0.05) as aws:
        endpoint = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
        aws.invoke(endpoint)
        dimension = [{"Name": "EndpointName", "Value": endpoint}]
        found = aws.until(
            lambda: aws.cloudwatch.list_metrics(
                Namespace="AWS/SageMaker", MetricName="Invocations", Dimensions=dimension
            )["Metrics"]
        )
    assert len(found) == 2  # by variant, and by variant and config


def test_metrics_count_invocations_errors_and_microseconds_by_variant(aws: Any, endpoint: str) -> None:
    for status in (200, 200, 400, 503):
        try:
            aws.invoke(endpoint, {"status": status, "sleep_s": 0.02, "say": "{}"})
        except ClientError:
            assert status >= 400
    aws.flush()
    now = datetime.now(UTC)

    def read(name: str, statistic: str, *, config: str | None = None) -> float:
        dimensions = [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": "a"}]
        dimensions += [{"Name": "EndpointConfigName", "Value": config}] if config is not None else []
        (point,) = aws.cloudwatch.get_metric_statistics(
            Namespace="AWS/SageMaker",
            MetricName=name,
            Dimensions=dimensions,
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(hours=1),
            Period=7200,
            Statistics=[statistic],
        )["Datapoints"]
        return float(point[statistic])

    config = aws.sm.describe_endpoint(EndpointName=endpoint)["EndpointConfigName"]
    assert read("Invocations", "Sum") == 4
    assert read("Invocations", "Sum", config=config) == 4
    assert read("InvocationsPerInstance", "Sum") == 4
    assert read("Invocation4XXErrors", "Sum") == 1
    assert read("Invocation5XXErrors", "Average") == 0.25
    assert read("InvocationModelErrors", "Average") == 0.5
    assert read("ConcurrentRequestsPerModel", "Maximum") == 1
    # the container sleeps 20 ms
    assert read("ModelLatency", "Minimum") >= 19_900
    assert read("OverheadLatency", "SampleCount") == 4
    assert read("OverheadLatency", "Minimum") > 0
