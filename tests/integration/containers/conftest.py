"""Images without Docker: the steps of a Dockerfile, done in a folder that stands for `/app`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

INSTRUCTION = re.compile(r"^([A-Z]+) (.*)$")


@dataclass(frozen=True)
class Dockerfile:
    """One of the project's Dockerfiles, of two stages: what builds, and the image itself."""

    path: Path

    def instructions(self, stage: int) -> Iterator[tuple[str, str]]:
        """Give the instructions of the nth stage, with continued lines joined."""
        text = self.path.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in text.split("\nFROM ")[1:][stage].splitlines():
            if found := INSTRUCTION.match(line):
                yield found.group(1), found.group(2)

    def last(self, kind: str) -> str:
        """Give the last instruction of a kind in the image itself."""
        return [text for name, text in self.instructions(1) if name == kind][-1]

    def build(self, app: Path, *, root: Path) -> None:
        """Do the steps of the first stage with `/app` elsewhere and the project's own uv."""
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": os.environ["HOME"],
            "UV_PYTHON": sys.executable,
            **{name: value for name, value in os.environ.items() if name.startswith("UV_") and "INDEX" in name},
        }
        for kind, text in self.instructions(0):
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

    def lint(self) -> str:
        """Give what hadolint finds."""
        linter = Path(sys.executable).parent / "hadolint"
        done = subprocess.run([str(linter), str(self.path)], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)


@pytest.fixture(scope="session", name="dockerfile")
def dockerfile_fixture(root: Path) -> Callable[[str], Dockerfile]:
    """Give the Dockerfile of an image by its folder's name."""
    return lambda name: Dockerfile(root / "containers" / name / "Dockerfile")
