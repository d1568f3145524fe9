"""What the supervisor tells others about its stack: one JSON file, written whole or not at all."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from local.clock import FILE as CLOCK
from serving.errors import LocalStackError
from serving.spec.codec import from_json

FORMAT = 1
FILE = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """One child of the supervisor; `port` is 0 until it answers, `exit_code` None while it runs."""

    pid: int
    port: int
    log: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """One stack: the supervisor's process and its services by name; `failed` says why it could not start."""

    pid: int
    started: float
    services: dict[str, ServiceState] = field(default_factory=dict)
    failed: str = ""

    def answers(self, name: str) -> bool:
        """Say whether that service runs and has said where."""
        service = self.services.get(name)
        return service is not None and service.port > 0 and service.exit_code is None

    @property
    def ready(self) -> bool:
        """Whether all services run, the prediction API, which comes last, included."""
        return "api" in self.services and all(self.answers(name) for name in self.services)


def write(state_dir: Path, state: StackState) -> None:
    """Write the state, so that a reader sees the old or the new one, never half of one."""
    scratch = state_dir / f"{FILE}.tmp"
    scratch.write_bytes(orjson.dumps({"format": FORMAT, **asdict(state)}, option=orjson.OPT_INDENT_2))
    scratch.replace(state_dir / FILE)


def read(state_dir: Path) -> StackState | None:
    """Give what the last supervisor of this folder wrote, or None if there was none; it may be gone since.

    Raises:
        LocalStackError: the file is not one of this format.

    """
    path = state_dir / FILE
    try:
        document = orjson.loads(path.read_bytes())
        if document["format"] != FORMAT:
            raise LocalStackError(f"{path}: got format {document['format']}; allowed: {FORMAT}; delete the file")
        told = {key: value for key, value in document.items() if key != "format"}
        return from_json(orjson.dumps(told), StackState)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise LocalStackError(
            f"{path}: got no state file ({error}); allowed: what a supervisor wrote; delete it"
        ) from error


def forget(state_dir: Path) -> None:
    """Remove the file."""
    (state_dir / FILE).unlink(missing_ok=True)


def is_alive(state: StackState) -> bool:
    """Say whether the supervisor of that state still runs, and is not another process under its old number."""
    try:
        os.kill(state.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return is_supervisor(state.pid)


def is_supervisor(pid: int) -> bool:
    """Say whether that process is a supervisor, where the system tells what a process runs."""
    command_line = Path(f"/proc/{pid}/cmdline")
    try:
        words = command_line.read_bytes().split(b"\0")
    except OSError:
        return not Path("/proc/self/cmdline").exists()  # a system without it, such as macOS: the number must do
    return b"local.supervisor" in words


def clock_file(state_dir: Path) -> Path:
    """Give where the stack's time lies, for all of its processes."""
    return state_dir / "services" / CLOCK
