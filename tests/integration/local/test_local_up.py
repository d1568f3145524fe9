"""The whole stack by its command: up, plain clients from other processes, twice up, down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

RANKER = "streamhub-dev-recommendation-ranker"
CLIENT = """
import sys
import boto3
answer = boto3.client("sagemaker-runtime").invoke_endpoint(
    EndpointName=sys.argv[1], ContentType="application/json", Body=open(sys.argv[2], "rb").read()
)
print(answer["InvokedProductionVariant"], answer["ResponseMetadata"]["HTTPStatusCode"], answer["Body"].read().decode())
"""


def streamhub(*words: str, root: Path) -> subprocess.CompletedProcess[str]:
    code = "from cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *words], cwd=root, capture_output=True, text=True, check=False, timeout=280
    )


def fetch(url: str, body: dict[str, Any] | None = None) -> bytes:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data=data, headers={"content-type": "application/json"})  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
        return bytes(answer.read())


def session_members(session: int) -> list[int]:
    """Give the processes of a session: the supervisor leads it, and nobody leaves it but commands of a deployment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


class Up:
    """What `up` printed, and where."""

    def __init__(self, document: dict[str, Any], state: Path) -> None:
        self.document, self.state = document, state
        self.environment = {**os.environ, **document["env"]}

    def client(self, service: str) -> Any:
        environment = self.document["env"]
        return boto3.client(
            service,
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            region_name=environment["AWS_REGION"],
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )


@pytest.fixture(name="up", scope="module")
def up_fixture(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    state = tmp_path_factory.mktemp("stack")
    done = streamhub("local", "up", "--json", "--state", str(state), root=root)
    try:
        assert done.returncode == 0, done.stderr
        yield Up(json.loads(done.stdout), state)
    finally:
        down = streamhub("local", "down", "--json", "--state", str(state), root=root)
    assert json.loads(down.stdout) == {"ended": True}
    assert session_members(json.loads(done.stdout)["pid"]) == []


def test_a_plain_client_of_another_process_gets_a_prediction(up: Up, root: Path) -> None:
    sample = root / "models/recommendation_ranker/samples/request.json"
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, RANKER, str(sample)],
        env=up.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    variant, status, body = done.stdout.split(" ", 2)
    assert (variant, status) == ("a", "200")
    [output] = json.loads(body)["outputs"]
    assert (output["name"], output["datatype"]) == ("score", "FP32")


def test_every_sample_is_answered_by_the_prediction_api(up: Up) -> None:
    assert set(up.document["samples"]) >= {"recommendation_ranker", "content_moderator", "thumbnail_scorer"}
    for name, sample in up.document["samples"].items():
        answer = json.loads(fetch(up.document["api_url"] + sample["route"], sample["body"]))
        assert answer["prediction_id"].split("~")[1] == name


def test_every_stack_is_complete_and_every_endpoint_in_service(up: Up) -> None:
    stacks = up.client("cloudformation").describe_stacks()["Stacks"]
    assert {stack["StackStatus"] for stack in stacks} == {"CREATE_COMPLETE"}
    endpoints = up.client("sagemaker").list_endpoints()["Endpoints"]
    assert {endpoint["EndpointStatus"] for endpoint in endpoints} == {"InService"}
    assert RANKER in {endpoint["EndpointName"] for endpoint in endpoints}


def test_first_weights_are_one_and_nought_and_can_be_moved(up: Up) -> None:
    sagemaker = up.client("sagemaker")
    variants = sagemaker.describe_endpoint(EndpointName=RANKER)["ProductionVariants"]
    assert {variant["VariantName"]: variant["CurrentWeight"] for variant in variants} == {"a": 1.0, "b": 0.0}
    targets = up.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
    assert f"endpoint/{RANKER}/variant/b" in {target["ResourceId"] for target in targets["ScalableTargets"]}


def test_the_emulated_function_answers_too(up: Up) -> None:
    [api] = up.client("apigatewayv2").get_apis()["Items"]
    url = f"{up.document['endpoint_url']}/_aws/execute-api/{api['ApiId']}/$default/healthz"
    assert json.loads(fetch(url))["status"] == "ok"


def test_the_page_names_every_endpoint(up: Up) -> None:
    page = fetch(up.document["page_url"]).decode()
    assert RANKER in page
    assert "100 %" in page


def test_up_again_reports_the_same_stack(up: Up, root: Path) -> None:
    again = streamhub("local", "up", "--json", "--state", str(up.state), root=root)
    assert json.loads(again.stdout) == up.document
