"""A whole stack at its fastest pace: what AWS does by itself in hours happens here within a minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from local.clock import MAX_PACE
from local.stack import LocalStack
from serving.aws import clock
from tests.waiting import until

ROOT = Path(__file__).parents[3]
ENDPOINT = "streamhub-dev-recommendation-ranker"
BODY = (ROOT / "models/recommendation_ranker/samples/request.json").read_bytes()

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


class Client:
    """An AWS client of the stack, and what time it is there."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env

    def of(self, service: str) -> Any:
        keys = {name: self.env[f"AWS_{name.upper()}"] for name in ("access_key_id", "secret_access_key")}
        return boto3.client(
            service,
            endpoint_url=self.env["AWS_ENDPOINT_URL"],
            region_name=self.env["AWS_REGION"],
            **{f"aws_{name}": value for name, value in keys.items()},
        )

    def now(self) -> datetime:
        return clock.now(self.env)


@pytest.fixture(name="stack", scope="module")
def stack_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with LocalStack(tmp_path_factory.mktemp("stack"), ROOT, on_progress=lambda _text: None, pace=MAX_PACE) as stack:
        stack.bring_up()
        yield Client(stack.env)


def test_drift_runs_every_hour_of_the_stack_over_what_was_captured_in_that_hour(stack: Client) -> None:
    cloudwatch, runtime = stack.of("cloudwatch"), stack.of("sagemaker-runtime")
    began = stack.now()
    dimensions = [{"Name": "Stage", "Value": "dev"}, {"Name": "Endpoint", "Value": ENDPOINT}]

    def scored() -> list[datetime]:
        for _ in range(20):
            runtime.invoke_endpoint(EndpointName=ENDPOINT, ContentType="application/json", Body=BODY, TargetVariant="b")
        found = cloudwatch.get_metric_statistics(
            Namespace="StreamHub/Inference",
            MetricName="MaxDriftScore",
            Dimensions=dimensions,
            Statistics=["Maximum"],
            Period=3600,
            StartTime=began - timedelta(hours=2),
            EndTime=stack.now(),
        )
        return [point["Timestamp"] for point in found["Datapoints"]]

    windows = until(scored, within_s=120, every_s=0.5)
    assert all(window.minute == 0 and window > began.astimezone(UTC) - timedelta(hours=2) for window in windows)


def test_statuses_metrics_and_captures_are_of_the_stacks_time(stack: Client) -> None:
    sagemaker = stack.of("sagemaker")
    before = stack.now()
    wanted = [{"VariantName": "b", "DesiredWeight": 0.25}]
    sagemaker.update_endpoint_weights_and_capacities(EndpointName=ENDPOINT, DesiredWeightsAndCapacities=wanted)
    described = until(lambda: settled(sagemaker), within_s=60)
    assert before <= described["LastModifiedTime"] <= stack.now()
    keys = [
        found["Key"]
        for found in stack.of("s3").list_objects_v2(
            Bucket=stack.env["STREAMHUB_TELEMETRY_BUCKET"], Prefix=f"capture/{ENDPOINT}/b/"
        )["Contents"]
    ]
    hours = {datetime.strptime("/".join(key.split("/")[3:7]), "%Y/%m/%d/%H").replace(tzinfo=UTC) for key in keys}
    assert max(hours) <= stack.now()
    assert max(hours) > datetime.now(UTC), "the stack is hours ahead by now"


def settled(sagemaker: Any) -> dict[str, Any] | None:
    described: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=ENDPOINT)
    return described if described["EndpointStatus"] == "InService" else None
