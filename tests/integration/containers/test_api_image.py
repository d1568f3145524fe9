"""The API's image without Docker: its Dockerfile's own steps in a folder, its own command, an empty environment."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

STAGE = "dev"


@pytest.fixture(scope="module", name="image")
def image_fixture(dockerfile: Any) -> Any:
    return dockerfile("api")


@pytest.fixture(scope="module", name="app")
def app_fixture(image: Any, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    app = tmp_path_factory.mktemp("image") / "app"
    app.mkdir()
    image.build(app, root=root)
    return app


def test_the_images_own_command_answers_health_in_an_empty_environment_and_ends_at_sigterm(
    image: Any, app: Path
) -> None:
    command = [*json.loads(image.last("ENTRYPOINT")), *json.loads(image.last("CMD"))]
    command[0] = str(app / ".venv" / "bin" / command[0])
    command[command.index("8080")] = "0"
    command[command.index("0.0.0.0")] = "127.0.0.1"  # noqa: S104 - what the image says, not what is listened at
    environment = {
        "STREAMHUB_STAGE": STAGE,
        "STREAMHUB_STATE_TABLE": "streamhub-dev-state",
        "STREAMHUB_FEATURES_URL": "valkeys://127.0.0.1:6379",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    server = subprocess.Popen(command, cwd=app, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, server.communicate()[1].decode()
        with urllib.request.urlopen(f"http://127.0.0.1:{json.loads(line)['port']}/healthz", timeout=10) as answer:
            assert answer.status == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0
    finally:
        server.kill()
        server.communicate()


def test_the_image_carries_specs_and_no_weights(app: Path) -> None:
    assert {path.name for path in app.iterdir()} >= {"specs.json", "stages.json", "serving", "lambdas", ".venv"}
    assert not (app / "models").exists()
    assert not list((app / "serving").rglob("*.onnx"))


def test_it_runs_as_a_number_that_is_not_root_and_as_the_task_says(image: Any) -> None:
    from infra import fargate  # noqa: PLC0415 - the CDK, which only this test needs

    user = image.last("USER")
    assert user == fargate.IMAGE_USER
    assert int(user.split(":")[0]) > 0
    assert json.loads(image.last("CMD")) == fargate.COMMAND


def test_the_dockerfile_is_clean_by_its_linter(image: Any) -> None:
    assert image.lint() == ""
