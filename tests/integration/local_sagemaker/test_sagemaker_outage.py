"""S3 and CloudWatch may be away for a while: nothing captured or counted is lost, and nothing grows without bound."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from local.clock import SystemClock
from local.sagemaker import capture as capture_module
from local.sagemaker import queues
from local.sagemaker.capture import Capture, Exchange
from local.sagemaker.metrics import Invocation, Meter
from local.sagemaker.options import Options
from local.sagemaker.routes import CaptureRule, Target

RULE = CaptureRule(
    destination="s3://b/p", percent=100, input=True, output=False, csv_types=frozenset({"text/csv"}),
    json_types=frozenset(),
)  # fmt: skip
TARGET = Target(endpoint="e", config="c", variant="a", workers=cast("Any", None), capture=RULE)


class Away:
    """A service that cannot be reached `times` times, then keeps what it gets."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.got: list[dict[str, Any]] = []

    def put_object(self, **call: Any) -> None:
        self.put_metric_data(**call)

    def put_metric_data(self, **call: Any) -> None:
        if self.times > 0:
            self.times -= 1
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")
        self.got.append(call)


def exchange(body: bytes) -> Exchange:
    return Exchange(
        content_type="text/csv", body=body, answer_type="text/csv", answer=b"", inference_id=None, at=datetime.now(UTC)
    )


def test_lines_wait_in_order_until_s3_is_back() -> None:
    s3 = Away(2)

    async def run() -> None:
        capture = Capture(s3, options=Options())
        for number in range(3):
            capture.add(TARGET, RULE, exchange(str(number).encode()))
            await capture.flush()

    asyncio.run(run())
    (call,) = s3.got
    lines = [json.loads(line) for line in call["Body"].splitlines()]
    assert [line["captureData"]["endpointInput"]["data"] for line in lines] == ["0", "1", "2"]


def test_lines_are_given_up_when_s3_stays_away_too_long(monkeypatch: Any) -> None:
    monkeypatch.setattr(capture_module, "_MOST_BUFFERED_BYTES", 1000)
    s3 = Away(1)

    async def run() -> None:
        capture = Capture(s3, options=Options())
        capture.add(TARGET, RULE, exchange(b"x" * 1000))
        await capture.flush()
        capture.add(TARGET, RULE, exchange(b"new"))
        await capture.flush()

    asyncio.run(run())
    (call,) = s3.got
    assert call["Body"].count(b"\n") == 1


def test_counts_wait_until_cloudwatch_is_back() -> None:
    cloudwatch = Away(1)

    async def run() -> None:
        meter = Meter(cloudwatch, options=Options(), clock=SystemClock())
        for _ in range(2):
            meter.count(TARGET, Invocation(status=200, model_s=0.001, total_s=0.002, concurrent=1))
            await meter.flush()

    asyncio.run(run())
    (call,) = cloudwatch.got
    data = [datum for datum in call["MetricData"] if datum["MetricName"] == "Invocations"]
    assert [len(datum["Dimensions"]) for datum in data] == [2, 3, 2, 3]
    assert sum(sum(datum["Counts"]) for datum in data if len(datum["Dimensions"]) == 2) == 2


def test_an_s3_that_is_away_is_asked_again_and_one_that_refuses_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_RETRY_S", 0)
    said: list[Any] = [
        EndpointConnectionError(endpoint_url="s3"),
        ClientError({"ResponseMetadata": {"HTTPStatusCode": 503}}, "PutObject"),
        "written",
        ClientError({"ResponseMetadata": {"HTTPStatusCode": 404}}, "PutObject"),
    ]

    def write() -> str:
        answer = said.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    assert asyncio.run(queues.patiently(write)) == "written"
    with pytest.raises(ClientError):
        asyncio.run(queues.patiently(write))
