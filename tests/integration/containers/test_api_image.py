"""The API's image without Docker: its Dockerfile's own steps in a folder, its own command, an empty environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCKERFILE = Path(__file__).parents[3] / "containers" / "api" / "Dockerfile"
INSTRUCTION = re.compile(r"^([A-Z]+) (.*)$")
STAGE = "dev"


def instructions(stage: int) -> Iterator[tuple[str, str]]:
    """Give the instructions of the nth build stage, with continued lines joined."""
    text = DOCKERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    stages = text.split("\nFROM ")[1:]
    for line in stages[stage].splitlines():
        if found := INSTRUCTION.match(line):
            yield found.group(1), found.group(2)


def last(kind: str) -> str:
    """Give the last instruction of a kind in the image itself."""
    return [text for name, text in instructions(1) if name == kind][-1]


@pytest.fixture(scope="module", name="app")
def app_fixture(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the build's steps with `/app` elsewhere and the project's own uv."""
    app = tmp_path_factory.mktemp("image") / "app"
    app.mkdir()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": os.environ["HOME"],
        "UV_PYTHON": sys.executable,
        **{name: value for name, value in os.environ.items() if name.startswith("UV_") and "INDEX" in name},
    }
    for kind, text in instructions(0):
        match kind:
            case "ENV":
                environment |= dict(pair.split("=", 1) for pair in text.replace("/app", str(app)).split())
                del environment["UV_LINK_MODE"]  # links into the cache serve here, and take a tenth of the time
            case "COPY":
                *sources, target = text.split()
                for source in sources:
                    place = app if target == "./" else app / target
                    _copy(root / source, place / Path(source).name if target == "./" else place)
            case "RUN" if not text.startswith("pip install"):
                step = text.replace("/app", str(app))
                done = subprocess.run(
                    ["sh", "-c", step], cwd=app, env=environment, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, done.stderr
    return app


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)


def test_the_images_own_command_answers_health_in_an_empty_environment_and_ends_at_sigterm(app: Path) -> None:
    command = [*json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]
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


def test_it_runs_as_a_number_that_is_not_root_and_as_the_task_says() -> None:
    from infra import fargate  # noqa: PLC0415 - the CDK, which only this test needs

    user = last("USER")
    assert user == fargate.IMAGE_USER
    assert int(user.split(":")[0]) > 0
    assert json.loads(last("CMD")) == fargate.COMMAND


def test_the_dockerfile_is_clean_by_its_linter() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([str(linter), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
