"""What a running stack tells its clients: the environment in which they speak to it, addresses and samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from local import state as states
from local.environment import stack_environment
from local.listener import HOST
from local.routing import PAGE_PREFIX
from local.state import StackState
from serving.spec.load import load_project

STAGE = "dev"


def environment_of(state: StackState, *, state_dir: Path, root: Path) -> dict[str, str]:
    """Give the environment of a running stack."""
    stage = load_project(root).stage(STAGE)
    ports = {name: state.services[name].port for name in ("gateway", "valkey", "support")}
    return stack_environment(
        stage,
        gateway_port=ports["gateway"],
        valkey_port=ports["valkey"],
        support_port=ports["support"],
        clock=states.clock_file(state_dir),
    )


def samples_of(root: Path) -> dict[str, dict[str, Any]]:
    """Give one request of the prediction API a model that has a sample: its route and a body."""
    samples = {}
    for name, model in sorted(load_project(root).models.items()):
        path = root / "models" / name / "samples" / "api.json"
        if path.is_file():
            samples[name] = {"route": model.api.route, "body": orjson.loads(path.read_bytes())}
    return samples


def running_document(state_dir: Path, *, root: Path) -> dict[str, object] | None:
    """Give the document of the stack that is ready in that folder, or None."""
    state = states.read(state_dir)
    if state is None or not states.is_alive(state) or not state.ready:
        return None
    return document_of(state, state_dir=state_dir, root=root)


def document_of(state: StackState, *, state_dir: Path, root: Path) -> dict[str, object]:
    """Give what `streamhub local up` prints: what a client needs to know of a ready stack."""
    environment = environment_of(state, state_dir=state_dir, root=root)
    return {
        "endpoint_url": environment["AWS_ENDPOINT_URL"],
        "api_url": f"http://{HOST}:{state.services['api'].port}",
        "page_url": environment["AWS_ENDPOINT_URL"] + PAGE_PREFIX,
        "env": environment,
        "pid": state.pid,
        "samples": samples_of(root),
    }
