from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.registry import S3Server

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="session", name="s3")
def s3_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as probe:
        port = probe.getsockname()[1]
    state = tmp_path_factory.mktemp("s3")
    with subprocess.Popen(
        [sys.executable, str(HERE / "s3_server.py"), str(port), str(state)], env=_environment()
    ) as server:
        s3 = S3Server(f"http://127.0.0.1:{port}")
        _until_answers(s3, server)
        yield s3
        server.terminate()


def _until_answers(s3: S3Server, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while server.poll() is None and time.monotonic() < end:
        with contextlib.suppress(urllib.error.URLError):
            s3.counts()
            return
        time.sleep(0.05)
    raise AssertionError(f"the S3 server did not start: {server.poll()}")


@pytest.fixture(name="bucket")
def bucket_fixture(s3: S3Server) -> str:
    name = f"registry-{uuid.uuid4().hex[:12]}"
    s3.client.create_bucket(Bucket=name)
    s3.fault("reset")
    return name


@pytest.fixture(scope="session", name="pusher")
def pusher_fixture() -> Iterator[Any]:
    with subprocess.Popen(
        [sys.executable, str(HERE / "pusher.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(),
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(jobs: list[dict[str, Any]]) -> list[int]:
            stdin.write(json.dumps(jobs) + "\n")
            stdin.flush()
            return list(json.loads(stdout.readline()))

        yield run
        stdin.close()
