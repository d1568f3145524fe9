"""The model server's image without Docker: its Dockerfile's own steps, its own command, an empty environment."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from model_packaging.build import archive_path, package
from serving.spec.images import pinned_image
from serving.spec.load import load_model

NAME, VERSION = "recommendation_ranker", "3.0.0"
ASKED_FOR = {"cattrs", "httptools", "numpy", "onnxruntime", "orjson", "uvloop"}
THEIRS = {"attrs", "flatbuffers", "packaging", "protobuf", "typing-extensions"}
"""What those require, by their metadata."""


@pytest.fixture(scope="module", name="image")
def image_fixture(dockerfile: Any) -> Any:
    return dockerfile("model_server")


@pytest.fixture(scope="module", name="app")
def app_fixture(image: Any, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    app = tmp_path_factory.mktemp("image") / "app"
    app.mkdir()
    image.build(app, root=root)
    return app


@pytest.fixture(scope="module", name="request_body")
def request_body_fixture(root: Path) -> bytes:
    return (root / "models" / NAME / "samples" / "request.json").read_bytes()


@pytest.fixture(scope="module", name="ml")
def ml_fixture(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What SageMaker mounts at /opt/ml: the archive, unpacked as tar does it."""
    folder = tmp_path_factory.mktemp("opt-ml")
    spec = load_model(root, NAME)
    package(spec, VERSION, model_dir=root / "models" / NAME, out_dir=folder, image=pinned_image(spec))
    with tarfile.open(archive_path(folder, NAME, VERSION)) as archive:
        archive.extractall(folder / "model", filter="data")
    return folder


def command(image: Any, app: Path, *arguments: str) -> list[str]:
    """Give what `docker run IMAGE arguments` runs."""
    entry, *rest = json.loads(image.last("ENTRYPOINT"))
    return [str(app / ".venv" / "bin" / entry), *rest, *arguments]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def files(folder: Path) -> Iterator[tuple[str, int]]:
    for path in sorted(folder.rglob("*")):
        yield str(path), path.lstat().st_mtime_ns


def test_docker_run_image_serve_answers_and_ends_and_writes_nothing(
    image: Any, app: Path, ml: Path, request_body: bytes, tmp_path: Path
) -> None:
    before = [*files(app), *files(ml)]
    port = free_port()
    environment = {
        "SAGEMAKER_BIND_TO_PORT": str(port),
        "SAGEMAKER_BASE_DIR": str(ml),
        "TMPDIR": str(tmp_path),
        **dict(pair.split("=", 1) for pair in image.last("ENV").split() if not pair.startswith("PATH=")),
    }
    began_s = time.monotonic()
    server = subprocess.Popen(
        [*command(image, app, "serve")], cwd=app, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, server.communicate()[1].decode()
        assert json.loads(line) == {"port": port, "name": NAME, "version": VERSION}
        assert time.monotonic() - began_s < 10, "ten times what DESIGN gives a start"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/invocations", request_body, timeout=10) as answer:
            assert json.loads(answer.read())["model_name"] == NAME
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0
    finally:
        server.kill()
        _, errors = server.communicate()
    assert errors == b""
    assert [*files(app), *files(ml)] == before
    assert list(tmp_path.iterdir()) == [], "its scratch is gone, and ONNX Runtime left no name of this machine"


def test_the_image_has_the_wheels_that_serve_and_no_others(app: Path) -> None:
    done = subprocess.run(
        [
            str(app / ".venv/bin/python"),
            "-c",
            "import importlib.metadata as m; print(*{d.name for d in m.distributions()})",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found = {name.lower().replace("_", "-") for name in done.stdout.split()} - {"pip", "setuptools"}
    assert found == ASKED_FOR | THEIRS


def test_the_image_has_the_servers_code_and_nothing_of_the_rest(app: Path) -> None:
    assert {path.name for path in app.iterdir()} == {".venv", "serving"}
    assert {path.name for path in (app / "serving").iterdir()} - {"__pycache__"} == {
        "__init__.py",
        "errors.py",
        "batching",
        "protocol",
        "runtime",
        "spec",
    }


def test_code_is_compiled_without_the_time_of_the_build(app: Path) -> None:
    """PEP 552: flags 1 say that the hash of the source is inside, and that nobody looks it up again."""
    compiled = list((app / "serving").rglob("*.pyc"))
    assert compiled
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\x01\x00\x00\x00"}


def test_the_base_is_pinned_and_the_process_is_not_root_and_serves_by_itself(image: Any) -> None:
    text = image.path.read_text(encoding="utf-8")
    assert len(text.split("ARG PYTHON_IMAGE=python:3.12-slim-bookworm@sha256:")[1].split()[0]) == 64
    assert json.loads(image.last("CMD")) == ["serve"]
    assert image.last("USER") == "${RUN_AS}"
    user, group = image.last("ARG").removeprefix("RUN_AS=").split(":")
    assert int(user) > 0
    assert int(group) > 0
    labels = image.last("LABEL")
    for capability in ("accept-bind-to-port", "multi-models"):
        assert f"com.amazonaws.sagemaker.capabilities.{capability}=true" in labels


def test_the_dockerfile_is_clean_by_its_linter(image: Any) -> None:
    assert image.lint() == ""
