"""Shadow variants, asynchronous endpoints and inference components with plain boto3."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.component_type import component_type
from serving.errors import LocalStackError
from tests.integration.local_sagemaker.clocks import Moved

JSON = "application/json"
CAPTURE = {
    "EnableCapture": True,
    "InitialSamplingPercentage": 100,
    "DestinationS3Uri": "s3://models/mirrored",
    "CaptureOptions": [{"CaptureMode": "Output"}],
    "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
}


def refusal(call: Callable[..., Any], **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return str(caught.value.response["Error"]["Message"])


def variant(name: str, model: str | None, *, weight: float = 1, count: int = 1) -> dict[str, Any]:
    made = {
        "VariantName": name,
        "InstanceType": "ml.m5.large",
        "InitialInstanceCount": count,
        "InitialVariantWeight": weight,
    }
    return made | ({"ModelName": model} if model else {})


def captured(aws: Any, endpoint: str, name: str) -> list[str]:
    aws.flush()
    listed = aws.s3.list_objects_v2(Bucket="models", Prefix=f"mirrored/{endpoint}/{name}/").get("Contents", [])
    return [
        json.loads(json.loads(line)["captureData"]["endpointOutput"]["data"])["answer"]
        for entry in listed
        for line in aws.s3.get_object(Bucket="models", Key=entry["Key"])["Body"].read().splitlines()
    ]


def test_a_shadow_sees_its_share_answers_nobody_and_is_captured(aws: Any) -> None:
    aws.sm.create_endpoint_config(
        EndpointConfigName="mirrored",
        ProductionVariants=[variant("live", aws.model(aws.archive("v2")))],
        ShadowProductionVariants=[variant("shadow", aws.model(aws.archive("v3")), weight=0.5)],
        DataCaptureConfig=CAPTURE,
    )
    endpoint = aws.endpoint("mirrored")
    assert {aws.invoke(endpoint)[1]["answer"] for _ in range(60)} == {"v2"}
    described = aws.sm.describe_endpoint(EndpointName=endpoint)
    assert [shadow["VariantName"] for shadow in described["ShadowProductionVariants"]] == ["shadow"]
    # 30 expected; 4 standard deviations each way
    assert aws.until(lambda: 14 <= len(captured(aws, endpoint, "shadow")) <= 46)
    assert set(captured(aws, endpoint, "shadow")) == {"v3"}
    assert captured(aws, endpoint, "live") == ["v2"] * 60


def test_a_shadow_that_fails_harms_nobody(aws: Any) -> None:
    aws.sm.create_endpoint_config(
        EndpointConfigName="harmless",
        ProductionVariants=[variant("live", aws.model(aws.archive("v2")))],
        ShadowProductionVariants=[variant("shadow", aws.model(aws.archive("v3", status="500")))],
    )
    endpoint = aws.endpoint("harmless")
    assert refusal(aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=b"{}", TargetVariant="shadow").startswith(
        "Variant shadow not found"
    )
    assert aws.invoke(endpoint)[1]["answer"] == "v2"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"production": 2}, "got 2 production and 1 shadow variants; allowed: one of each"),
        ({"asynchronous": True}, "not with AsyncInferenceConfig"),
    ],
)
def test_a_shadow_is_for_one_production_variant_of_a_real_time_endpoint(
    aws: Any, more: dict[str, Any], said: str
) -> None:
    model = aws.model(aws.archive("v2"))
    config: dict[str, Any] = {
        "EndpointConfigName": "wrong",
        "ProductionVariants": [variant(f"p{number}", model) for number in range(more.get("production", 1))],
        "ShadowProductionVariants": [variant("shadow", model)],
    }
    if more.get("asynchronous"):
        config["AsyncInferenceConfig"] = {"OutputConfig": {"S3OutputPath": "s3://models/out"}}
    assert said in refusal(aws.sm.create_endpoint_config, **config)


def asynchronous(aws: Any, name: str) -> str:
    sns, sqs = aws.client("sns"), aws.client("sqs")
    topic = sns.create_topic(Name=name)["TopicArn"]
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    aws.sm.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=[variant("a", aws.model(aws.archive("v2")))],
        AsyncInferenceConfig={
            "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 2},
            "OutputConfig": {
                "S3OutputPath": f"s3://models/{name}/out",
                "S3FailurePath": f"s3://models/{name}/failed",
                "NotificationConfig": {"SuccessTopic": topic, "ErrorTopic": topic},
            },
        },
    )
    aws.endpoint_named(name, name)
    return str(queue)


@pytest.fixture(scope="module", name="queued")
def queued_fixture(shared: Any) -> Any:
    """Give a running SageMaker with the asynchronous endpoint `queued`."""
    asynchronous(shared, "queued")
    return shared


def ask(aws: Any, endpoint: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    aws.s3.put_object(Bucket="models", Key=f"{endpoint}/in.json", Body=json.dumps(body).encode())
    answer: dict[str, Any] = aws.runtime.invoke_endpoint_async(
        EndpointName=endpoint,
        InputLocation=f"s3://models/{endpoint}/in.json",
        ContentType="application/json",
        **more,
    )
    return answer


def stored(aws: Any, uri: str) -> bytes:
    bucket, _, key = uri.removeprefix("s3://").partition("/")

    def read() -> bytes | None:
        try:
            body: bytes = aws.s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        except aws.s3.exceptions.NoSuchKey:
            return None
        return body

    return bytes(aws.until(read))


def notice(aws: Any, queue: str) -> dict[str, Any]:
    sqs = aws.client("sqs")
    (message,) = aws.until(lambda: sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages"))
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    told: dict[str, Any] = json.loads(json.loads(message["Body"])["Message"])
    return told


def test_an_asynchronous_answer_lies_in_s3_and_a_topic_tells_of_it(aws: Any) -> None:
    queue = asynchronous(aws, "slow")
    asked = ask(aws, "slow", {"x": 1}, InferenceId="mine")
    assert asked["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert asked["InferenceId"] == "mine"
    assert json.loads(stored(aws, asked["OutputLocation"]))["answer"] == "v2"
    told = notice(aws, queue)
    assert (told["invocationStatus"], told["inferenceId"]) == ("Completed", "mine")
    assert told["responseParameters"]["outputLocation"] == asked["OutputLocation"]
    inline = aws.runtime.invoke_endpoint_async(EndpointName="slow", Body=b"{}", ContentType="application/json")
    assert json.loads(stored(aws, inline["OutputLocation"]))["answer"] == "v2"


def test_an_asynchronous_failure_lies_at_the_failure_path_and_is_told(aws: Any) -> None:
    queue = asynchronous(aws, "failing")
    asked = ask(aws, "failing", {"status": 500, "say": "no memory"})
    assert b"no memory" in stored(aws, asked["FailureLocation"])
    told = notice(aws, queue)
    assert told["invocationStatus"] == "Failed"
    assert "no memory" in told["failureReason"]


def test_an_endpoint_without_instances_keeps_its_backlog_until_there_are_some(aws: Any) -> None:
    asynchronous(aws, "asleep")
    for count in (0, 1):
        if count:
            aws.flush()
        change = [{"VariantName": "a", "DesiredInstanceCount": count}]
        aws.sm.update_endpoint_weights_and_capacities(EndpointName="asleep", DesiredWeightsAndCapacities=change)
        aws.settled("asleep")
        if not count:
            waiting = [ask(aws, "asleep", {})["OutputLocation"] for _ in range(3)]
            values = {datum["MetricName"]: datum["Value"] for datum in aws.backlog("asleep")}
            assert values["ApproximateBacklogSize"] == 3
            assert values["HasBacklogWithoutCapacity"] == 1
    assert all(stored(aws, uri) for uri in waiting)
    assert {datum["MetricName"]: datum["Value"] for datum in aws.backlog("asleep")}["HasBacklogWithoutCapacity"] == 0


def test_what_waits_and_what_runs_survives_a_restart_and_answers_at_the_promised_place(
    start: Any, tmp_path: Path
) -> None:
    with start() as aws:
        asynchronous(aws, "durable")
        held = {"until": str(tmp_path / "free")}
        asked = [ask(aws, "durable", held) for _ in range(2)]  # both run: two at once on an instance
        asked += [
            aws.runtime.invoke_endpoint_async(EndpointName="durable", Body=b'{"say": "late"}', ContentType=JSON)
            for _ in range(3)
        ]
        aws.until(lambda: aws.in_flight("durable") == 2)
    (tmp_path / "free").touch()
    with start() as aws:
        answers = [stored(aws, one["OutputLocation"]) for one in asked]
        assert [json.loads(answer)["answer"] for answer in answers[:2]] == ["v2", "v2"]
        assert answers[2:] == [b"late"] * 3
        backlog = aws.until(lambda: (now := aws.backlog("durable")) and not now[1]["Value"] and now)
        assert {datum["MetricName"] for datum in backlog} >= {"ApproximateBacklogSize", "ApproximateAgeOfOldestRequest"}


def test_what_waits_longer_than_its_time_to_live_is_given_up_and_counted(moved: Moved) -> None:
    aws = moved.aws
    asynchronous(aws, "expiring")
    change = [{"VariantName": "a", "DesiredInstanceCount": 0}]
    aws.sm.update_endpoint_weights_and_capacities(EndpointName="expiring", DesiredWeightsAndCapacities=change)
    moved.advance(1)
    ask(aws, "expiring", {})
    ask(aws, "expiring", {}, RequestTTLSeconds=60)
    moved.advance(61)

    def now() -> dict[str, float]:
        return {datum["MetricName"]: datum["Value"] for datum in aws.backlog("expiring")}

    found = aws.until(lambda: (values := now())["ApproximateBacklogSize"] == 1 and values)
    assert found["ExpiredRequests"] == 1
    assert found["ApproximateAgeOfOldestRequest"] == pytest.approx(61)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"Filename": "../../other"}, "Filename"),
        ({"S3OutputPathExtension": "s3://elsewhere"}, "S3OutputPathExtension"),
        ({"RequestTTLSeconds": 21_601}, "RequestTTLSeconds"),
        ({"InvocationTimeoutSeconds": 3601}, "InvocationTimeoutSeconds"),
        ({"InputLocation": "https://bucket/key"}, "s3:// alone"),
        ({"InputLocation": "/etc/passwd"}, "InputLocation"),
    ],
    ids=["name", "extension", "ttl", "timeout", "https", "path"],
)
def test_an_asynchronous_request_that_the_api_does_not_take_is_refused(
    queued: Any, given: dict[str, Any], said: str
) -> None:
    call = {"EndpointName": "queued", "InputLocation": "s3://models/none", **given}
    assert said in refusal(queued.runtime.invoke_endpoint_async, **call)


def test_a_location_that_no_header_can_tell_is_refused_and_nothing_is_queued(aws: Any) -> None:
    aws.sm.create_endpoint_config(
        EndpointConfigName="there",
        ProductionVariants=[variant("a", aws.model(aws.archive("v2")))],
        AsyncInferenceConfig={"OutputConfig": {"S3OutputPath": "s3://models/\u65e5\u672c"}},
    )
    aws.endpoint_named("there", "there")
    assert "ASCII" in refusal(aws.runtime.invoke_endpoint_async, EndpointName="there", Body=b"{}")
    assert aws.in_flight("there") == 0


def test_an_endpoint_that_is_deleted_takes_its_queue_along(start: Any, tmp_path: Path) -> None:
    held = {"until": str(tmp_path / "never"), "say": "first life"}
    with start(deletion_s=0.05) as aws:
        asynchronous(aws, "mortal")
        places = [ask(aws, "mortal", held)["OutputLocation"] for _ in range(4)]
        aws.sm.delete_endpoint(EndpointName="mortal")
        aws.until(lambda: not aws.sm.list_endpoints(NameContains="mortal")["Endpoints"])
        aws.endpoint_named("mortal", "mortal")
        assert json.loads(stored(aws, ask(aws, "mortal", {})["OutputLocation"]))["answer"] == "v2"
        bucket, _, key = places[-1].removeprefix("s3://").partition("/")
        with pytest.raises(aws.s3.exceptions.NoSuchKey):
            aws.s3.get_object(Bucket=bucket, Key=key)
        (tmp_path / "never").touch()


def test_each_kind_of_endpoint_is_called_its_own_way(aws: Any) -> None:
    asynchronous(aws, "queued")
    live = aws.endpoint(aws.config({"a": aws.model(aws.archive("v2"))}, {"a": 1}))
    assert "call InvokeEndpointAsync" in refusal(aws.runtime.invoke_endpoint, EndpointName="queued", Body=b"{}")
    assert "call InvokeEndpoint." in refusal(aws.runtime.invoke_endpoint_async, EndpointName=live, Body=b"{}")
    assert "exactly one of them" in refusal(aws.runtime.invoke_endpoint_async, EndpointName="queued")


def component_endpoint(aws: Any, name: str) -> str:
    aws.sm.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=[variant("fleet", None)],
        ExecutionRoleArn="arn:aws:iam::123456789012:role/any-role",
    )
    return str(aws.endpoint_named(name, name))


def component(aws: Any, name: str, endpoint: str, version: str, copies: int = 1) -> dict[str, Any]:
    aws.sm.create_inference_component(
        InferenceComponentName=name,
        EndpointName=endpoint,
        VariantName="fleet",
        Specification={
            "ModelName": aws.model(aws.archive(version)),
            "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 128},
        },
        RuntimeConfig={"CopyCount": copies},
    )
    return settled_component(aws, name)


def settled_component(aws: Any, name: str) -> dict[str, Any]:
    def now() -> Any:
        described = aws.sm.describe_inference_component(InferenceComponentName=name)
        return described if described["InferenceComponentStatus"] in {"InService", "Failed"} else None

    found: dict[str, Any] = aws.until(now)
    return found


def test_components_share_an_endpoint_and_are_called_by_name(aws: Any) -> None:
    endpoint = component_endpoint(aws, "shared")
    first = component(aws, "first", endpoint, "v2", copies=2)
    component(aws, "second", endpoint, "v3")
    assert first["RuntimeConfig"] == {"DesiredCopyCount": 2, "CurrentCopyCount": 2}
    assert aws.invoke(endpoint, InferenceComponentName="first")[1]["answer"] == "v2"
    assert aws.invoke(endpoint, InferenceComponentName="second")[1]["answer"] == "v3"
    assert "give InferenceComponentName" in refusal(aws.runtime.invoke_endpoint, EndpointName=endpoint, Body=b"{}")
    assert "hosts the inference components first, second" in refusal(aws.sm.delete_endpoint, EndpointName=endpoint)
    listed = aws.sm.list_inference_components(EndpointNameEquals=endpoint, SortBy="Name", SortOrder="Ascending")
    assert [found["InferenceComponentName"] for found in listed["InferenceComponents"]] == ["first", "second"]


def test_a_component_moves_to_another_model_scales_to_zero_and_goes(aws: Any) -> None:
    endpoint = component_endpoint(aws, "moving")
    component(aws, "only", endpoint, "v2")
    specification = {"ModelName": aws.model(aws.archive("v3"))}
    aws.sm.update_inference_component(InferenceComponentName="only", Specification=specification)
    assert settled_component(aws, "only")["Specification"]["ComputeResourceRequirements"]
    assert aws.invoke(endpoint, InferenceComponentName="only")[1]["answer"] == "v3"
    none = {"CopyCount": 0}
    aws.sm.update_inference_component_runtime_config(InferenceComponentName="only", DesiredRuntimeConfig=none)
    settled_component(aws, "only")
    call = {"EndpointName": endpoint, "Body": b"{}", "InferenceComponentName": "only"}
    assert "Inference Component has no capacity to process this request" in refusal(aws.runtime.invoke_endpoint, **call)
    aws.sm.delete_inference_component(InferenceComponentName="only")
    aws.until(lambda: not aws.sm.list_inference_components()["InferenceComponents"])
    aws.sm.delete_endpoint(EndpointName=endpoint)


def test_a_component_whose_container_is_not_healthy_fails_with_its_words(aws: Any) -> None:
    endpoint = component_endpoint(aws, "unhealthy")
    aws.sm.create_inference_component(
        InferenceComponentName="broken",
        EndpointName=endpoint,
        VariantName="fleet",
        Specification={"Container": {"Image": "i", "ArtifactUrl": aws.archive("v2", fail="no such opset")}},
    )
    described = settled_component(aws, "broken")
    assert described["InferenceComponentStatus"] == "Failed"
    assert "no such opset" in described["FailureReason"]


def test_components_live_where_variants_name_no_model(aws: Any) -> None:
    live = aws.endpoint(aws.config({"fleet": aws.model(aws.archive("v2"))}, {"fleet": 1}))
    call = {
        "InferenceComponentName": "homeless",
        "EndpointName": live,
        "VariantName": "fleet",
        "Specification": {"ModelName": aws.model(aws.archive("v3"))},
    }
    assert "its variants name models" in refusal(aws.sm.create_inference_component, **call)


def test_cloudformation_makes_changes_and_removes_a_component(aws: Any) -> None:
    endpoint = component_endpoint(aws, "stacked")
    made = component_type(aws.sm)
    properties = {
        "EndpointName": endpoint,
        "VariantName": "fleet",
        "Specification": {"ModelName": aws.model(aws.archive("v2"))},
        "RuntimeConfig": {"CopyCount": "1"},
    }
    arn, attributes = made.create("Component", properties, "stack")
    name = attributes["InferenceComponentName"]
    assert aws.invoke(endpoint, InferenceComponentName=name)[1]["answer"] == "v2"
    changed = properties | {"Specification": {"ModelName": aws.model(aws.archive("v3"))}}
    assert made.update(arn, properties, changed) == (arn, attributes)
    assert aws.invoke(endpoint, InferenceComponentName=name)[1]["answer"] == "v3"
    broken = properties | {"Specification": {"ModelName": aws.model(aws.archive("v4", fail="bad digest"))}}
    with pytest.raises(LocalStackError, match="bad digest"):
        made.update(arn, changed, broken)
    made.delete(arn, changed)
    made.delete(arn, changed)
    assert aws.sm.list_inference_components()["InferenceComponents"] == []
