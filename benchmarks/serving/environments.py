"""An environment for each peer under one folder, made once: what is there and of the same recipe is used again."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from serving.errors import BenchmarkError

DEFAULT = Path("~/.cache/streamhub/bench")
_LAST_LINES = 3


class Peer(Protocol):
    """What an environment is made of: pip's `requirements`, and `programs` that must be on the path."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def requirements(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def programs(self) -> tuple[str, ...]: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A peer that is a command and no server."""

    name: str
    requirements: tuple[str, ...]
    programs: tuple[str, ...] = ()


def python_of(folder: Path, peer: Peer) -> Path:
    """Where the Python of a peer lies; that of this project where a peer needs nothing of its own."""
    return folder / peer.name / "bin/python" if peer.requirements else Path(sys.executable)


def install(folder: Path, peer: Peer, *, told: Callable[[str], None]) -> Path:
    """Make the environment of a peer, if it is not there, and give its Python.

    Raises:
        BenchmarkError: a program is missing, or a package cannot be installed.

    """
    for program in peer.programs:
        if shutil.which(program) is None:
            raise BenchmarkError(f"{peer.name}: got no {program} on the path; install it (Debian: {_DEBIAN[program]})")
    python = python_of(folder, peer)
    recipe = hashlib.sha256("\n".join((sys.version, *peer.requirements)).encode()).hexdigest()
    mark = folder / peer.name / ".recipe"
    if not peer.requirements or (mark.is_file() and mark.read_text() == recipe):
        return python
    told(f"{peer.name}: installing {', '.join(peer.requirements)}")
    shutil.rmtree(folder / peer.name, ignore_errors=True)
    venv.create(folder / peer.name, with_pip=False)
    _run([*_installer(), "--python", str(python), *peer.requirements], peer)
    mark.write_text(recipe)
    return python


_DEBIAN = {"java": "openjdk-17-jre-headless"}


def _installer() -> list[str]:
    uv = Path(sys.executable).with_name("uv")
    if uv.is_file():
        return [str(uv), "pip", "install", "--quiet"]
    raise BenchmarkError("uv: got none beside this Python; allowed the one that make setup puts there; run make setup")


def _run(arguments: Sequence[str], peer: Peer) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603 - pinned packages
    if done.returncode:
        why = " ".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
        raise BenchmarkError(f"{peer.name}: its packages could not be installed: {why}")
