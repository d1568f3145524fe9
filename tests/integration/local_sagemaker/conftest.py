"""A real ministack for S3 and CloudWatch, and our SageMaker under uvicorn; boto3 speaks to both over 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
import uvicorn
from botocore.config import Config

from local.clock import Clock, ManualClock
from local.faults import Faults
from local.sagemaker.app import SageMakerApp, create_app
from local.sagemaker.metrics import metric_data
from local.sagemaker.options import Options
from local.settings import LocalSettings
from tests.integration.local_sagemaker.clocks import Moved

FAKE = Path(__file__).parent / "fake_model_server.py"
BUCKET = "models"


def client(service: str, endpoint_url: str, **config: Any) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="123456789012",
        aws_secret_access_key="any",  # noqa: S106 - any will do
        config=Config(retries={"total_max_attempts": 1}, max_pool_connections=32, **config),
    )


def until(holds: Callable[[], Any], *, within_s: float = 30) -> Any:
    """Give what `holds` returns as soon as it is true."""
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)
    return found


@dataclass
class Aws:
    """Clients of the two services, and short forms of what tests do often."""

    app: SageMakerApp
    sm: Any
    runtime: Any
    s3: Any
    cloudwatch: Any
    url: str
    loop: asyncio.AbstractEventLoop
    faults: Faults

    def archive(self, name: str, **more: str) -> str:
        key = f"{uuid.uuid4()}.tar.gz"
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps({"name": name, **more}).encode())
        return f"s3://{BUCKET}/{key}"

    def model(self, uri: str, **environment: str) -> str:
        name = f"m-{uuid.uuid4().hex[:8]}"
        container = {"Image": "triton:1", "ModelDataUrl": uri, "Environment": environment}
        self.sm.create_model(ModelName=name, PrimaryContainer=container)
        return name

    def config(
        self, models: dict[str, str], weights: dict[str, float], *, count: int = 1, routing: str = "", **more: Any
    ) -> str:
        name = f"c-{uuid.uuid4().hex[:8]}"
        variants = [
            {
                "VariantName": variant,
                "ModelName": model,
                "InstanceType": "ml.m5.large",
                "InitialInstanceCount": count,
                "InitialVariantWeight": weights[variant],
                **({"RoutingConfig": {"RoutingStrategy": routing}} if routing else {}),
            }
            for variant, model in models.items()
        ]
        self.sm.create_endpoint_config(EndpointConfigName=name, ProductionVariants=variants, **more)
        return name

    def endpoint(self, config: str) -> str:
        return self.endpoint_named(f"e-{uuid.uuid4().hex[:8]}", config)

    def endpoint_named(self, name: str, config: str) -> str:
        self.sm.create_endpoint(EndpointName=name, EndpointConfigName=config)
        self.settled(name)
        return name

    def settled(self, name: str) -> dict[str, Any]:
        def now() -> Any:
            described = self.sm.describe_endpoint(EndpointName=name)
            return described if described["EndpointStatus"] in {"InService", "Failed"} else None

        return until(now)

    def invoke(self, endpoint: str, body: Any = None, **more: Any) -> tuple[str, dict[str, Any]]:
        answer = self.runtime.invoke_endpoint(
            EndpointName=endpoint, Body=json.dumps(body or {}), ContentType="application/json", **more
        )
        return answer["InvokedProductionVariant"], json.loads(answer["Body"].read())

    def until(self, holds: Callable[[], Any]) -> Any:
        return until(holds)

    def client(self, service: str) -> Any:
        return client(service, self.url)

    def backlog(self, endpoint: str) -> list[dict[str, Any]]:
        """Give what is published of an endpoint's queue."""
        data = asyncio.run_coroutine_threadsafe(self._queue_data(), self.loop).result(30)
        return [datum for datum in data if datum["Dimensions"] == [{"Name": "EndpointName", "Value": endpoint}]]

    async def _queue_data(self) -> list[dict[str, Any]]:
        return list(self.app.queues.metric_data(datetime.now(UTC)))

    def in_flight(self, endpoint: str) -> int:
        """Give how many requests an endpoint's containers have now."""
        held = list(self.app.containers.in_flight.items())  # at once: the service's thread goes on
        return sum(count for (name, _), count in held if name == endpoint)

    def counted(self, endpoint: str) -> dict[str, list[float]]:
        """Give what was counted of an endpoint's variants since the last flush: by metric, each value once."""
        data = metric_data(self.app.meter.tallies, datetime.now(UTC))
        found: dict[str, list[float]] = {}
        for datum in data:
            names = [dimension["Name"] for dimension in datum["Dimensions"]]
            if datum["Dimensions"][0]["Value"] == endpoint and names == ["EndpointName", "VariantName"]:
                found.setdefault(datum["MetricName"], []).extend(datum["Values"])
        return found

    def flush(self) -> None:
        asyncio.run_coroutine_threadsafe(self.app.flush(), self.loop).result(30)


@contextlib.contextmanager
def serving(app: Any) -> Iterator[tuple[str, asyncio.AbstractEventLoop]]:
    """Serve an ASGI app under uvicorn in a thread, lifespan included; gives its address and loop."""
    loops: list[asyncio.AbstractEventLoop] = []
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="on"))

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    until(lambda: server.started or not thread.is_alive())
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", loops[0]
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture(scope="session", name="aws_url")
def aws_url_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give a running ministack."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_ACCOUNT_ID": "123456789012",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
    }
    folder = tmp_path_factory.mktemp("ministack")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("ministack"))], env=environment, cwd=folder, stdout=log, stderr=log
        )
        try:
            url = f"http://127.0.0.1:{port}"
            s3 = client("s3", url, s3={"addressing_style": "path"})
            until(lambda: _answers(s3))
            s3.create_bucket(Bucket=BUCKET)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _answers(s3: Any) -> bool:
    try:
        s3.list_buckets()
    except Exception:  # noqa: BLE001 - any failure means: not yet
        return False
    return True


@contextlib.contextmanager
def sagemaker(folder: Path, aws_url: str, clock: Clock | None = None, **options: Any) -> Iterator[Aws]:
    """Serve SageMaker on a state folder."""
    chosen = {
        "server_command": (sys.executable, str(FAKE)),
        "metrics_interval_s": 3600,
        "capture_flush_s": 3600,
        "weights_update_s": 0.1,
        **options,
    }
    settings = LocalSettings(state_dir=folder, s3_endpoint_url=aws_url)
    chance = random.Random(7)  # noqa: S311 - traffic
    app = create_app(settings, options=Options(**chosen), chance=chance, clock=clock)
    with serving(app) as (url, loop):
        yield Aws(
            app=app,
            sm=client("sagemaker", url),
            runtime=client("sagemaker-runtime", url),
            s3=client("s3", aws_url, s3={"addressing_style": "path"}),
            cloudwatch=client("cloudwatch", aws_url),
            url=aws_url,
            loop=loop,
            faults=Faults(folder),
        )


@pytest.fixture(name="start")
def start_fixture(tmp_path: Path, aws_url: str) -> Callable[..., Any]:
    """Give a function that serves SageMaker on this test's state folder."""
    return partial(sagemaker, tmp_path / "state", aws_url)


@pytest.fixture(name="aws")
def aws_fixture(start: Callable[..., Any]) -> Iterator[Aws]:
    """Give a running SageMaker."""
    with start() as aws:
        yield aws


@pytest.fixture(name="moved")
def moved_fixture(start: Callable[..., Any]) -> Iterator[Moved]:
    """Give a SageMaker whose time stands still until the test moves it."""
    moved = Moved(ManualClock(time.time()))
    with start(clock=moved.clock, bake_pace=1.0) as aws:
        moved.aws = aws
        moved.add_alarm()
        yield moved


@pytest.fixture(scope="module", name="launch")
def launch_fixture(tmp_path_factory: pytest.TempPathFactory, aws_url: str) -> Callable[..., Any]:
    """Give a function that serves SageMaker on a state folder of this module."""
    return partial(sagemaker, tmp_path_factory.mktemp("state"), aws_url)


@pytest.fixture(scope="module", name="shared")
def shared_fixture(launch: Callable[..., Any]) -> Iterator[Aws]:
    """Give one running SageMaker to all tests of a module, with time limits of half a second."""
    with launch(invocation_timeout_s=0.5, stream_timeout_s=0.5) as aws:
        yield aws
