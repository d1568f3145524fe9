"""However the service ends: no process outlives it, and what it accepted is answered by the next one."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

HERE = Path(__file__).parent


def client(service: str, url: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="123456789012",
        aws_secret_access_key="any",  # noqa: S106 - any will do
    )


def until_true(holds: Any) -> Any:
    deadline = time.monotonic() + 30
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)
    return found


def model_servers(state_dir: Path) -> list[int]:
    """Give the ids of running processes that serve an archive of this state folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{state_dir}/archives/".encode() in line:
                found.append(int(entry.name))
    return found


@contextmanager
def host(state_dir: Path, aws_url: str, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    command = [sys.executable, str(HERE / "serve_once.py"), str(state_dir), aws_url, str(HERE / "fake_model_server.py")]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            found = until_true(lambda: re.search(rb"running on (http://127\.0\.0\.1:\d+)", log.read_bytes()))
            yield process, found.group(1).decode()
        finally:
            process.kill()
            process.wait(30)


def hosted(url: str, aws_url: str, **config: Any) -> None:
    """Put one model on the endpoint `e`."""
    client("s3", aws_url).put_object(Bucket="models", Key="killed.tar.gz", Body=b'{"name": "v2"}')
    sagemaker = client("sagemaker", url)
    container = {"Image": "i", "ModelDataUrl": "s3://models/killed.tar.gz"}
    sagemaker.create_model(ModelName="m", PrimaryContainer=container)
    variant = {"VariantName": "a", "ModelName": "m", "InstanceType": "ml.m5.large", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant], **config)
    sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    until_true(lambda: sagemaker.describe_endpoint(EndpointName="e")["EndpointStatus"] == "InService")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and only Linux ties a process to its parent")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_model_servers_end_with_their_host(aws_url: str, tmp_path: Path, how: signal.Signals) -> None:
    state_dir = tmp_path / "state"
    with host(state_dir, aws_url, tmp_path / "log") as (process, url):
        hosted(url, aws_url)
        assert len(model_servers(state_dir)) == 1
        process.send_signal(how)
        process.wait(30)
        until_true(lambda: not model_servers(state_dir))


def test_every_asynchronous_request_that_a_killed_service_had_accepted_is_answered(
    aws_url: str, tmp_path: Path
) -> None:
    output = {"S3OutputPath": f"s3://models/{tmp_path.name}"}
    config = {"OutputConfig": output, "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 2}}
    with host(tmp_path / "state", aws_url, tmp_path / "first") as (process, url):
        hosted(url, aws_url, AsyncInferenceConfig=config)
        runtime, held = client("sagemaker-runtime", url), {"until": str(tmp_path / "free"), "say": "late"}
        accepted = [
            runtime.invoke_endpoint_async(EndpointName="e", Body=json.dumps(held), ContentType="application/json")
            for _ in range(20)
        ]
        process.kill()
        process.wait(30)
    (tmp_path / "free").touch()
    s3 = client("s3", aws_url)
    places = {one["OutputLocation"].removeprefix("s3://models/") for one in accepted}

    def answered() -> set[str]:
        listed = s3.list_objects_v2(Bucket="models", Prefix=f"{tmp_path.name}/").get("Contents", [])
        return {entry["Key"] for entry in listed}

    assert not answered()
    with host(tmp_path / "state", aws_url, tmp_path / "second"):
        until_true(lambda: answered() == places)
    assert {s3.get_object(Bucket="models", Key=place)["Body"].read() for place in places} == {b"late"}
