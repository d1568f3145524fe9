"""The whole stack by its command: up, plain clients from other processes, twice up, down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from local.cdk import CdkCli
from local.commands import Commands
from tests.fakes.page import full_state

RANKER = "streamhub-dev-recommendation-ranker"
CLIENT = """
import sys
import boto3
answer = boto3.client("sagemaker-runtime").invoke_endpoint(
    EndpointName=sys.argv[1], ContentType="application/json", Body=open(sys.argv[2], "rb").read()
)
print(answer["InvokedProductionVariant"], answer["ResponseMetadata"]["HTTPStatusCode"], answer["Body"].read().decode())
"""


def streamhub(*words: str, root: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from cli.main import main; main()", *words]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=280)


def at_home(home: Path) -> dict[str, str]:
    """Give an environment in which that folder is the user's home and the place for temporary files."""
    return {**os.environ, "HOME": str(home), "TMPDIR": str(home), "XDG_CACHE_HOME": str(home / ".cache")}


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
    """What `up` printed, and where; `home` is the user's home and temporary folder to it."""

    def __init__(self, document: dict[str, Any], state: Path, home: Path) -> None:
        self.document, self.state, self.home = document, state, home
        self.environment = {**os.environ, **document["env"]}

    def client(self, service: str) -> Any:
        environment = self.document["env"]
        return boto3.client(  # type: ignore[call-overload]  # the stubs want the name written out
            service,
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            region_name=environment["AWS_REGION"],
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        )


@pytest.fixture(name="up", scope="module")
def up_fixture(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    state, home = tmp_path_factory.mktemp("stack"), tmp_path_factory.mktemp("home")
    done = streamhub("local", "up", "--keep", "--json", "--state", str(state), root=root, environment=at_home(home))
    try:
        assert done.returncode == 0, done.stderr
        yield Up(json.loads(done.stdout), state, home)
    finally:
        down = streamhub("local", "down", "--json", "--state", str(state), root=root, environment=at_home(home))
    assert json.loads(down.stdout) == {"ended": True, "kept": True}
    assert session_members(json.loads(done.stdout)["pid"]) == []
    assert [path.name for path in home.rglob("*")] == [], "nothing is written beside the state folder"


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


def test_the_page_reads_every_part_of_the_stack(up: Up) -> None:
    assert b"<title>StreamHub local stack</title>" in fetch(up.document["page_url"])
    state = json.loads(fetch(f"{up.document['page_url']}/state.json"))
    assert state["problems"] == []
    assert RANKER in {endpoint["name"] for endpoint in state["endpoints"]}
    assert state["alarms"]
    routes = {sample["route"] for sample in up.document["samples"].values()}
    assert {f"route:{route}" for route in routes} <= {target["id"] for target in state["targets"]}
    released = {release["model"] for release in state["releases"]}
    assert "recommendation_ranker" in {*state["models_without_release"], *released}
    assert keys_of(state) == keys_of(json.loads(full_state().encode()))


def keys_of(document: dict[str, Any]) -> dict[str, set[str]]:
    parts = {name: part[0] for name, part in document.items() if isinstance(part, list) and part}
    kept = {name: set(parts[name]) for name in ("endpoints", "alarms", "fault_kinds", "targets")}
    return {"": set(document), **kept, "variants": set(document["endpoints"][-1]["variants"][0])}


def test_up_again_reports_the_same_stack(up: Up, root: Path) -> None:
    again = streamhub("local", "up", "--json", "--state", str(up.state), root=root)
    assert json.loads(again.stdout) == up.document


def invoke(up: Up, function: str, event: dict[str, Any]) -> dict[str, Any]:
    answer = up.client("lambda").invoke(FunctionName=f"streamhub-dev-{function}", Payload=json.dumps(event).encode())
    result: dict[str, Any] = json.loads(answer["Payload"].read())
    return result


def predicted(up: Up) -> dict[str, Any]:
    """Give what the deployed function answers, called as API Gateway calls it."""
    sample = up.document["samples"]["recommendation_ranker"]
    request = {"method": "POST", "path": sample["route"], "sourceIp": "127.0.0.1"}
    event = {
        "version": "2.0",
        "routeKey": f"POST {sample['route']}",
        "rawPath": sample["route"],
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"http": request, "requestId": "r", "stage": "$default"},
        "body": json.dumps(sample["body"]),
        "isBase64Encoded": False,
    }
    answer = invoke(up, "predict", event)
    assert answer["statusCode"] == 200, answer
    body: dict[str, Any] = json.loads(answer["body"])
    return body


@contextmanager
def without(up: Up, function: str, action: str) -> Iterator[None]:
    """Take the statements with an action from a function's role."""
    iam = up.client("iam")
    found = up.client("lambda").get_function_configuration(FunctionName=f"streamhub-dev-{function}")
    role = found["Role"].rpartition("/")[2]
    [name] = iam.list_role_policies(RoleName=role)["PolicyNames"]
    whole = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
    kept = [entry for entry in whole["Statement"] if action not in json.dumps(entry["Action"])]
    assert len(kept) < len(whole["Statement"])
    put = {"RoleName": role, "PolicyName": name}
    iam.put_role_policy(**put, PolicyDocument=json.dumps({**whole, "Statement": kept}))
    try:
        yield
    finally:
        iam.put_role_policy(**put, PolicyDocument=json.dumps(whole))


def test_deployed_functions_do_their_work_as_their_own_roles(up: Up) -> None:
    assert invoke(up, "release", {}).keys() == {"steps"}
    assert len(invoke(up, "drift", {"model": "recommendation_ranker"})["reports"]) == 2
    assert "degraded" not in predicted(up)


def test_without_one_statement_exactly_its_call_is_refused(up: Up) -> None:
    with without(up, "drift", "s3:GetObject"):
        failed = invoke(up, "drift", {"model": "recommendation_ranker"})["errorMessage"]
        assert "because no identity-based policy allows the s3:GetObject action" in failed
        assert "degraded" not in predicted(up)
    with without(up, "predict", "sagemaker:InvokeEndpoint"):
        assert predicted(up)["degraded"] == ["fallback_model"]
        assert len(invoke(up, "drift", {"model": "recommendation_ranker"})["reports"]) == 2
    assert "degraded" not in predicted(up)


@contextmanager
def fault(up: Up, root: Path, *words: str) -> Iterator[None]:
    state = ("--state", str(up.state))
    added = json.loads(streamhub("local", "fault", "add", *words, "--json", *state, root=root).stdout)["added"]
    try:
        yield
    finally:
        streamhub("local", "fault", "remove", added, *state, root=root)


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_tick_under_a_throttled_table_moves_nothing_and_the_next_one_goes_on(up: Up, root: Path) -> None:
    def weights() -> dict[str, float]:
        variants = up.client("sagemaker").describe_endpoint(EndpointName=RANKER)["ProductionVariants"]
        return {variant["VariantName"]: variant["CurrentWeight"] for variant in variants}

    def release(*words: str) -> None:
        done = streamhub(
            "release", words[0], "recommendation_ranker", *words[1:], root=root, environment=up.environment
        )
        assert done.returncode == 0, done.stderr

    release("start", "--version", "3.0.0")
    with fault(up, root, "dynamodb-throttle", "--table", "streamhub-dev-state"):
        said = invoke(up, "release", {})["errorMessage"]
        assert "ProvisionedThroughputExceededException; allowed fewer requests a second" in said
        assert weights() == {"a": 1.0, "b": 0.0}
    [step] = invoke(up, "release", {})["steps"]
    assert (step["moved"], step["state"]) == (True, "canary")
    until(lambda: weights()["b"] > 0)
    release("rollback", "--reason", "the test ends")
    until(lambda: weights() == {"a": 1.0, "b": 0.0})


def test_without_its_cache_the_prediction_api_answers_by_default_features_and_recovers(up: Up, root: Path) -> None:
    sample = up.document["samples"]["recommendation_ranker"]

    def degraded() -> list[str]:
        answer = json.loads(fetch(up.document["api_url"] + sample["route"], sample["body"]))
        return list(answer.get("degraded", ()))

    assert degraded() == []
    with fault(up, root, "cache"):
        until(lambda: degraded() == ["features_default"])
    until(lambda: degraded() == [])


RECORD = {"pk": {"S": "kept"}, "sk": {"S": "yes"}}


def table(up: Up) -> str:
    return str(up.document["env"]["STREAMHUB_STATE_TABLE"])


def weigh(up: Up, a: float, b: float) -> None:
    sagemaker = up.client("sagemaker")
    wanted = [{"VariantName": "a", "DesiredWeight": a}, {"VariantName": "b", "DesiredWeight": b}]
    sagemaker.update_endpoint_weights_and_capacities(EndpointName=RANKER, DesiredWeightsAndCapacities=wanted)
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=RANKER, WaiterConfig={"Delay": 1})


def seen(up: Up) -> dict[str, Any]:
    """Give what clients see of the parts that a stack must not forget."""
    s3, sagemaker = up.client("s3"), up.client("sagemaker")
    registry = up.document["env"]["STREAMHUB_REGISTRY_BUCKET"]
    stacks = up.client("cloudformation").describe_stacks()["Stacks"]
    alarms = up.client("cloudwatch").get_paginator("describe_alarms").paginate()
    targets = up.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
    described = [
        sagemaker.describe_endpoint(EndpointName=endpoint["EndpointName"])
        for endpoint in sagemaker.list_endpoints()["Endpoints"]
    ]
    return {
        "registry": {item["Key"]: item["ETag"] for item in s3.list_objects_v2(Bucket=registry)["Contents"]},
        "record": up.client("dynamodb").get_item(TableName=table(up), Key=RECORD).get("Item"),
        "stacks": {stack["StackName"]: stack["StackId"] for stack in stacks},
        "endpoints": {one["EndpointName"]: (one["EndpointStatus"], one["CreationTime"]) for one in described},
        "weights": {
            (one["EndpointName"], variant["VariantName"]): variant["CurrentWeight"]
            for one in described
            for variant in one["ProductionVariants"]
        },
        "alarms": sorted(alarm["AlarmName"] for page in alarms for alarm in page["MetricAlarms"]),
        "targets": sorted(target["ResourceId"] for target in targets["ScalableTargets"]),
    }


def test_a_kept_stack_comes_back_without_a_deployment_and_its_own_templates_are_no_change(up: Up, root: Path) -> None:
    weigh(up, 0.75, 0.25)
    up.client("dynamodb").put_item(TableName=table(up), Item=RECORD)
    before = seen(up)
    assert (before["weights"][RANKER, "b"], before["record"]) == (0.25, RECORD)
    streamhub("local", "down", "--state", str(up.state), root=root, environment=at_home(up.home))
    done = streamhub("local", "up", "--json", "--state", str(up.state), root=root, environment=at_home(up.home))
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    assert again["env"] == up.document["env"], "what a client was told stays true"
    up.document["pid"] = again["pid"]
    assert seen(up) == before
    weigh(up, 1.0, 0.0)
    assert not (up.state / "logs" / "cdk-stage.log").exists(), "it was brought back, not deployed"
    test_every_sample_is_answered_by_the_prediction_api(up)
    commands = Commands(up.state / "logs")
    CdkCli(root, environment=up.document["env"], commands=commands).deploy("again", "--all", out=up.state / "cdk.out")
    deployed = (up.state / "logs" / "cdk-again.log").read_text()
    assert deployed.count("(no changes)") == len(before["stacks"]) - 1, "every stack but the CDK's own"
