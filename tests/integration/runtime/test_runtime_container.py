"""`serve` in a container of SageMaker: its folders, variables and port, below a base folder of the test's own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[3]


@contextmanager
def contained(environ: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Run the console entry `serve` as a container does: no arguments, the variables only; gives what it says."""
    entry = Path(sys.executable).parent / "serve"
    pipe = subprocess.PIPE
    process = subprocess.Popen([entry], env={**os.environ, **environ}, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield json.loads(line)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture(name="base")
def base_fixture(tmp_path: Path, packed: Any) -> Path:
    with tarfile.open(packed("linear")) as tar:
        tar.extractall(tmp_path / "model", filter="data")
    return tmp_path


@pytest.fixture(name="port")
def port_fixture() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_serve_runs_the_unpacked_model_on_the_port_it_is_bound_to(base: Path, port: int) -> None:
    environ = {
        "SAGEMAKER_BASE_DIR": str(base),
        "SAGEMAKER_BIND_TO_PORT": str(port),
        "SAGEMAKER_SAFE_PORT_RANGE": "20000-20010",
        "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "linear",
    }
    before = sorted(path.relative_to(base) for path in base.rglob("*"))
    with contained(environ) as said:
        assert said == {"port": port, "name": "linear", "version": "2.1.0"}
        # reachable from outside, not on the loopback address alone
        address = socket.gethostbyname(socket.gethostname())
        assert httpx.get(f"http://{address}:{port}/ping", trust_env=False).status_code == 200
    assert sorted(path.relative_to(base) for path in base.rglob("*")) == before


def test_serve_of_several_models_waits_for_sagemaker_to_name_them(base: Path, port: int) -> None:
    folder = base / "models/0a1b"
    folder.mkdir(parents=True)
    (base / "model").rename(folder / "model")
    environ = {
        "SAGEMAKER_BASE_DIR": str(base),
        "SAGEMAKER_BIND_TO_PORT": str(port),
        "SAGEMAKER_MULTI_MODEL": "true",
    }
    with contained(environ) as said, httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        assert said == {"port": port, "models": {}}
        assert client.get("/ping").status_code == 200
        asked = {"model_name": "0a1b", "url": str(folder / "model")}
        assert client.post("/models", json=asked).status_code == 200
        assert client.get("/models/0a1b").json()["modelUrl"] == str(folder / "model")


def test_a_model_of_another_name_is_not_served(base: Path, failing: Callable[..., str]) -> None:
    environ = {"SAGEMAKER_BASE_DIR": str(base), "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "other"}
    assert "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME: got 'other'; allowed 'linear'" in failing("serve", environ=environ)
