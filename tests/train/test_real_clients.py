"""The AWS CLI and the SageMaker Python SDK, unchanged, against a gateway: all they get is AWS_ENDPOINT_URL.

`make test-train` installs each from PyPI into an environment of its own, since both pin other releases of botocore.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.serving.graphs import write_archive
from benchmarks.serving.models import RANKER, encode_oip_json

pytestmark = pytest.mark.train

AWS = Path(sys.prefix) / "awscli/bin/aws"
SDK = Path(sys.prefix) / "sagemaker/bin/python"
ROOT = Path(__file__).parents[2]
BUCKET = "clients"
READY_S = 60.0


@dataclass(frozen=True)
class Site:
    """A gateway, and the files that clients send."""

    port: int
    environment: dict[str, str]
    archive: Path
    body: Path


@pytest.fixture(scope="module", name="site")
def site_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("clients")
    body = folder / "body.json"
    body.write_bytes(encode_oip_json(RANKER, RANKER.rows()[0]))
    archive = write_archive(RANKER, folder)
    command = [sys.executable, "-m", "local.gateway", "--state", str(folder / "state"), "--valkey-port", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        port = int(json.loads(process.stdout.readline())["port"])
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
        given = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "HOME": str(folder),
        }
        # a bucket by plain HTTP: neither client may be absent for the other's test
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        with contextlib.closing(connection):
            connection.request("PUT", f"/{BUCKET}")
            assert connection.getresponse().status == 200
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as upload:
            upload.request("PUT", f"/{BUCKET}/{archive.name}", archive.read_bytes())
            assert upload.getresponse().status == 200
        try:
            yield Site(port=port, environment={**kept, **given}, archive=archive, body=body)
        finally:
            process.terminate()


def scores(document: dict[str, Any]) -> list[float]:
    values: list[float] = document["outputs"][0]["data"]
    return values


class Cli:
    """The `aws` command."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(AWS), *arguments], capture_output=True, text=True, check=False, env=self.site.environment
        )

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--output", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def until(self, status: str) -> None:
        deadline = time.monotonic() + READY_S
        # the CLI's own waiter looks every 30 seconds
        while self.json("sagemaker", "describe-endpoint", "--endpoint-name", "cli")["EndpointStatus"] != status:
            assert time.monotonic() < deadline


@pytest.mark.skipif(not AWS.exists(), reason="the AWS CLI is not installed: make test-train")
def test_the_aws_cli_deploys_asks_reweighs_and_deletes_an_endpoint(site: Site, tmp_path: Path) -> None:
    cli, sagemaker, out = Cli(site), "sagemaker", tmp_path / "out.json"
    container = {"Image": "triton:none", "ModelDataUrl": f"s3://{BUCKET}/{site.archive.name}"}
    role = "arn:aws:iam::123456789012:role/cli"
    named = ("--endpoint-name", "cli")
    cli.json(
        sagemaker, "create-model", "--model-name", "cli",
        "--primary-container", json.dumps(container), "--execution-role-arn", role,
    )  # fmt: skip
    variants = "VariantName={},ModelName=cli,InitialInstanceCount=1,InstanceType=ml.m5.large,InitialVariantWeight={}"
    cli.json(
        sagemaker, "create-endpoint-config", "--endpoint-config-name", "cli",
        "--production-variants", variants.format("a", 1), variants.format("b", 0),
    )  # fmt: skip
    cli.json(sagemaker, "create-endpoint", *named, "--endpoint-config-name", "cli", "--tags", "Key=k,Value=v")
    cli.until("InService")
    assert cli.run(sagemaker, "wait", "endpoint-in-service", *named).returncode == 0
    ask = (
        "sagemaker-runtime", "invoke-endpoint", *named, "--content-type", "application/json",
        "--body", f"fileb://{site.body}",
    )  # fmt: skip
    assert cli.json(*ask, str(out))["InvokedProductionVariant"] == "a"
    expected = scores(json.loads(out.read_text()))
    moved = ("VariantName=a,DesiredWeight=0", "VariantName=b,DesiredWeight=1")
    cli.json(sagemaker, "update-endpoint-weights-and-capacities", *named, "--desired-weights-and-capacities", *moved)
    cli.until("InService")
    assert cli.json(*ask, str(out))["InvokedProductionVariant"] == "b"
    assert scores(json.loads(out.read_text())) == expected
    refused = cli.run(*ask, "--target-variant", "z", str(out))
    assert refused.returncode != 0
    assert "(ValidationError) when calling the InvokeEndpoint operation: Variant z not found" in refused.stderr
    assert [found["EndpointName"] for found in cli.json(sagemaker, "list-endpoints")["Endpoints"]] == ["cli"]
    cli.json(sagemaker, "delete-endpoint", *named)
    assert cli.run(sagemaker, "wait", "endpoint-deleted", *named).returncode == 0


@pytest.mark.skipif(not SDK.exists(), reason="the SageMaker Python SDK is not installed: make test-train")
def test_the_sagemaker_sdk_deploys_predicts_in_every_form_and_deletes(site: Site) -> None:
    script = Path(__file__).with_name("sagemaker_sdk_session.py")
    quiet = {"SAGEMAKER_SUPPRESS_V2_WARNING": "1"}
    done = subprocess.run(
        [str(SDK), str(script), BUCKET, site.archive.name, str(site.body)],
        capture_output=True,
        text=True,
        check=False,
        env={**site.environment, **quiet},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    found = said["scores"]
    assert set(found) == {"json", "named", "npy", "csv", "stream", "core", "async"}
    for form, values in found.items():
        assert values == pytest.approx(found["json"], rel=1e-6), form
    assert said["count"] == 2
