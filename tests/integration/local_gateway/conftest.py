"""The gateway alone, as its own process: AWS without a deployed stage, ready in a few seconds."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from local.faults import Faults
from tests.waiting import until

ACCOUNT, REGION = "123456789012", "us-east-1"


class Aws:
    """One gateway and plain clients of it."""

    def __init__(self, port: int, state: Path) -> None:
        self.url, self.state = f"http://127.0.0.1:{port}", state
        self.faults = Faults(state)
        self.session = boto3.Session("test", "test", region_name=REGION)

    def client(self, service: str, *, attempts: int = 1) -> Any:
        config = Config(retries={"total_max_attempts": attempts, "mode": "standard"})
        return self.session.client(service, endpoint_url=self.url, config=config)  # type: ignore[call-overload]

    def role(self, name: str, *statements: dict[str, Any]) -> str:
        """Make a role with one inline policy and give its ARN."""
        iam = self.client("iam")
        arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST))["Role"]["Arn"]
        self.allow(name, *statements)
        return str(arn)

    def allow(self, role: str, *statements: dict[str, Any]) -> None:
        """Let a role do this and nothing else."""
        document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        self.client("iam").put_role_policy(RoleName=role, PolicyName="inline", PolicyDocument=document)

    def function(self, name: str, role: str, source: str, **more: Any) -> str:
        """Make a function of one module, whose `handler` is called, and give its ARN."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("function.py", source)
        made = self.client("lambda").create_function(
            FunctionName=name,
            Role=role,
            Runtime="python3.12",
            Handler="function.handler",
            Code={"ZipFile": packed.getvalue()},
            Timeout=30,
            **more,
        )
        return str(made["FunctionArn"])

    def invoke(self, name: str, event: Any) -> Any:
        answer = self.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
        return json.loads(answer["Payload"].read())


TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


@pytest.fixture(name="aws", scope="session")
def aws_fixture(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Aws]:
    state = tmp_path_factory.mktemp("gateway")
    command = [sys.executable, "-m", "local.gateway", "--state", str(state), "--valkey-port", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment["LAMBDA_ASYNC_RETRY_BASE_SECONDS"] = "0.1"
    environment |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}
    with (
        (state / "log").open("wb") as log,
        subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout is not None else b""
            assert line, (state / "log").read_text()
            yield Aws(json.loads(line)["port"], state)
        finally:
            process.terminate()


@pytest.fixture(name="until", scope="session")
def until_fixture() -> Callable[..., Any]:
    return until
