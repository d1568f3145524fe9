"""What an asynchronous endpoint does with requests, places and topics that are not as they should be.

Sources: SageMaker guide, *Asynchronous inference* (what failed lies at S3FailurePath and is told to ErrorTopic);
API reference, ProductionVariant (traffic follows weights) and InvokeEndpointAsync.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from local.clock import ManualClock
from local.sagemaker import queues
from local.sagemaker.backlog import Backlog, Job
from local.sagemaker.containers import Exchange
from local.sagemaker.queues import Queues
from local.sagemaker.routes import Route, Target, Weighted
from local.sagemaker.upstream import Answer

TOPIC = "arn:aws:sns:us-east-1:123456789012:told"


def endpoint(aws: Any, name: str, *variants: str, output: str = "") -> str:
    """Put an asynchronous endpoint up whose variants answer with their names, one request at a time."""
    weights = dict.fromkeys(variants or ("a",), 1.0)
    models = {variant: aws.model(aws.archive(variant)) for variant in weights}
    config = {
        "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 1},
        "OutputConfig": {
            "S3OutputPath": output or f"s3://models/{name}/out",
            "S3FailurePath": f"s3://models/{name}/failed",
        },
    }
    return str(aws.endpoint_named(name, aws.config(models, weights, AsyncInferenceConfig=config)))


def ask(aws: Any, name: str, **given: Any) -> dict[str, Any]:
    """Send a request with its body inline unless it is said where that lies."""
    given = given or {"Body": b"{}"}
    answer: dict[str, Any] = aws.runtime.invoke_endpoint_async(
        EndpointName=name, ContentType="application/json", **given
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


@pytest.mark.parametrize(
    "uri",
    ["s3://models", "s3://models/", "s3://No_Such*Name/in.json", "s3://[models/in.json", "s3://models/absent"],
    ids=["no key", "an empty key", "no bucket's name", "no URL", "nothing there"],
)
def test_an_input_that_can_never_be_read_fails_and_the_next_request_is_answered(shared: Any, uri: str) -> None:
    name = endpoint(shared, f"unread-{uri.encode().hex()}")
    failed, good = ask(shared, name, InputLocation=uri), ask(shared, name)
    assert stored(shared, failed["FailureLocation"])
    assert json.loads(stored(shared, good["OutputLocation"]))["answer"] == "a"


def test_an_input_is_read_whatever_characters_its_key_has(shared: Any) -> None:
    name, key = endpoint(shared, "named"), "named/[1]?v=2#part//3.json"
    shared.s3.put_object(Bucket="models", Key=key, Body=b'{"say": "read"}')
    assert stored(shared, ask(shared, name, InputLocation=f"s3://models/{key}")["OutputLocation"]) == b"read"


def test_an_answer_that_s3_refuses_is_a_failure(shared: Any) -> None:
    name = endpoint(shared, "homeless", output="s3://no-such-bucket/out")
    asked = ask(shared, name)
    assert b"NoSuchBucket" in stored(shared, asked["FailureLocation"])


def test_asynchronous_requests_follow_the_weights_too(shared: Any) -> None:
    name = endpoint(shared, "weighed", "a", "b")
    places = [ask(shared, name)["OutputLocation"] for _ in range(40)]
    seen = Counter(json.loads(stored(shared, place))["answer"] for place in places)
    # 20 expected; 4 standard deviations each way
    assert 7 <= seen["b"] <= 33


class Containers:
    """A container that answers at once."""

    async def ask(self, *_: Any, **__: Any) -> Exchange:
        return Exchange(answer=Answer(status=200, body=b"done"))


class Service:
    """S3 and SNS in one: each call is told to fail so many times before it is taken."""

    def __init__(self, *fails: Exception) -> None:
        self.fails = list(fails)
        self.got: list[dict[str, Any]] = []

    def put_object(self, **call: Any) -> None:
        self.publish(**call)

    def publish(self, **call: Any) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.got.append(call)


def job(number: int = 1, *, received_s: float = 0.0, ttl_s: float = 3600.0, body: bytes = b"{}") -> Job:
    topics = {"SuccessTopic": TOPIC, "ErrorTopic": TOPIC}
    return Job(
        id=str(number),
        endpoint="e",
        endpoint_created=1.0,
        inference_id=str(number),
        headers={"content-type": "text/csv"},
        input_uri="",
        body=body,
        output_uri=f"s3://b/{number}",
        failure_uri=f"s3://b/{number}-error",
        config={"OutputConfig": {"S3OutputPath": "s3://b", "NotificationConfig": topics}},
        received_s=received_s,
        ttl_s=ttl_s,
        timeout_s=900,
    )


def queues_of(folder: Path, *, s3: Service, sns: Service, instances: int = 1) -> Queues:
    target = Target(endpoint="e", config="c", variant="a", workers=cast("Any", None), capture=None)
    meter: Any = type("Meter", (), {"count": lambda *_: None})()
    return Queues(
        {"e": Route([Weighted(target, 1)], instances=instances, asynchronous={})},
        backlog=Backlog(folder / "async.sqlite"),
        created=lambda _: 1.0,
        containers=cast("Any", Containers()),
        meter=meter,
        s3=s3,
        sns=sns,
        clock=ManualClock(100.0),
        region="us-east-1",
        chance=random.Random(7),  # noqa: S311 - traffic
    )


async def until_left(held: Queues, size: int) -> None:
    """Return when so many requests wait or run."""

    def left() -> float:
        data = held.metric_data(datetime.now(UTC))
        return float(next(datum["Value"] for datum in data if datum["MetricName"] == "ApproximateBacklogSize"))

    async with asyncio.timeout(30):
        while left() != size:  # noqa: ASYNC110 - nothing of the queues tells when
            await asyncio.sleep(0)


def refusal(status: int, code: str = "") -> ClientError:
    return ClientError(cast("Any", {"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {"Code": code}}), "")


def test_a_notice_is_told_when_the_topic_is_back_and_a_refused_one_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "_RETRY_S", 0)
    monkeypatch.setattr(queues, "_POLL_S", 0)
    s3, sns = Service(), Service(EndpointConnectionError(endpoint_url="sns"), refusal(500))

    async def run() -> None:
        held = queues_of(tmp_path, s3=s3, sns=sns)
        held.add(job(1))
        await until_left(held, 0)
        sns.fails = [refusal(404)]
        held.add(job(2))
        await until_left(held, 0)
        await held.stop()

    asyncio.run(run())
    assert [json.loads(call["Message"])["inferenceId"] for call in sns.got] == ["1"]
    assert [call["Key"] for call in s3.got] == ["1", "2"]
    assert list(Backlog(tmp_path / "async.sqlite").jobs()) == []


def test_an_answer_and_a_failure_that_s3_refuses_are_told_all_the_same(tmp_path: Path) -> None:
    denied = refusal(403, "AccessDenied")
    sns = Service()

    async def run() -> None:
        held = queues_of(tmp_path, s3=Service(denied, denied), sns=sns)
        held.add(job())
        await until_left(held, 0)
        await held.stop()

    asyncio.run(run())
    (told,) = [json.loads(call["Message"]) for call in sns.got]
    assert told["invocationStatus"] == "Failed"
    assert "AccessDenied" in told["failureReason"]


def test_only_what_is_past_its_time_is_given_up_and_the_rest_keeps_its_order(tmp_path: Path) -> None:

    async def run() -> None:
        held = queues_of(tmp_path, s3=Service(), sns=Service(), instances=0)
        for number in range(6):
            held.add(job(number, ttl_s=99 if number % 2 else 101))
        await until_left(held, 3)
        await held.stop()

    asyncio.run(run())
    assert [one.id for one in Backlog(tmp_path / "async.sqlite").jobs()] == ["0", "2", "4"]


def test_a_notice_fits_into_a_topic_however_much_a_container_says() -> None:
    """API Publish: a message has at most 262,144 bytes."""
    result = queues.Result(failed="x" * 1_000_000)
    told = queues.notice(job(), result, region="us-east-1", now=datetime.fromtimestamp(0, UTC))
    assert len(json.dumps(told)) <= 262_144
