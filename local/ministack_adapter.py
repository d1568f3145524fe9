"""What we know of ministack: its private hooks, how it is told its settings, and what it gets wrong.

Its CloudWatch is in `ministack_cloudwatch`, its memory in `ministack_memory`, functions, their roles and
their triggers in `ministack_roles` and `ministack_triggers`.

ministack is pinned exactly; tests/unit/local/test_adapter_contract.py fails when one of these hooks moves.
"""

# ruff: noqa: SLF001 - private hooks are what this module is for

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from local import ministack_cloudwatch, ministack_memory, ministack_roles, ministack_triggers
from local.clock import look_s
from local.template_types import ResourceType
from serving.errors import LocalStackError

PINNED = "1.5.33"
Asgi = Callable[[Any, Any, Any], Awaitable[None]]

_APP = "ministack.app"
_PROVISIONERS = "ministack.services.cloudformation.provisioners"
_STACKS = "ministack.services.cloudformation.stacks"
_CLOUDWATCH = "ministack.services.cloudwatch"
_EVENTS = "ministack.services.eventbridge"
_SCHEDULER = "ministack.services.scheduler"
_SWEEP_S = 10.0
"""How often ministack looks for due schedules."""


def _together(*parts: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    modules = sorted({module for part in parts for module in part})  # in one order: tests are named by it
    return {module: tuple(dict.fromkeys(name for part in parts for name in part.get(module, ()))) for module in modules}


HOOKS = _together(
    {
        _APP: ("app",),
        _PROVISIONERS: ("_RESOURCE_HANDLERS", "_REPLACING_PROPERTIES"),
        _STACKS: ("_runs_on_worker_thread",),
        _CLOUDWATCH: ("time",),
        _EVENTS: ("_put_events", "time", "_SCHEDULER_TICK_INTERVAL"),
        _SCHEDULER: ("time", "_SCHEDULE_TICK_INTERVAL"),
    },
    ministack_cloudwatch.HOOKS,
    ministack_memory.HOOKS,
    ministack_roles.HOOKS,
    ministack_triggers.HOOKS,
)
"""Every name of ministack that this module and those beside it touch."""


def configure(*, port: int, valkey_port: int, region: str, account: str, state_dir: Path) -> None:
    """Tell ministack its settings, which it reads from the environment when it is imported."""
    os.environ.update(
        {
            "GATEWAY_PORT": str(port),
            "MINISTACK_HOST": "127.0.0.1",
            "MINISTACK_ACCOUNT_ID": account,
            "MINISTACK_REGION": region,
            "LAMBDA_EXECUTOR": "local",
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(valkey_port),
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "PERSIST_STATE": "0",
            "S3_PERSIST": "0",
            "STATE_DIR": str(state_dir / "ministack"),
            "DOCKER_HOST": f"unix://{state_dir}/no-docker.sock",  # what runs here never starts a container
            "LOG_LEVEL": "WARNING",
        }
    )


def check() -> None:
    """Refuse another version of ministack, or one without the hooks.

    Raises:
        LocalStackError: with what is missing.

    """
    found = version("ministack")
    if found != PINNED:
        raise LocalStackError(f"ministack: got {found}; allowed: {PINNED}; run make setup")
    missing = [f"{module}.{name}" for module, names in HOOKS.items() for name in names if not _has(module, name)]
    if missing:
        raise LocalStackError(f"ministack {found}: got no {', '.join(missing)}; run make setup")


def application(types: Mapping[str, ResourceType]) -> Asgi:
    """Give ministack's ASGI application with our resource types in it and its alarm evaluation out of it."""
    check()
    for name, resource in types.items():
        _register(name, resource)
    ours = frozenset(types)
    stacks = _module(_STACKS)
    runs_on_thread = stacks._runs_on_worker_thread
    # our handlers call back over HTTP, so they must not run on the loop that answers
    stacks._runs_on_worker_thread = lambda name: name in ours or runs_on_thread(name)
    ministack_cloudwatch.install()
    ministack_triggers.Triggers().install()
    app: Asgi = _module(_APP).app
    return app


def keep_time(now: Callable[[], float], *, pace: float) -> None:
    """Let metrics, alarms' histories and schedules have the stack's time, and look for due schedules often enough."""
    check()
    for name in (_CLOUDWATCH, _EVENTS, _SCHEDULER):
        _module(name).time = _StackTime(now)
    sweep_s = look_s(_SWEEP_S, pace=pace) / pace
    _module(_EVENTS)._SCHEDULER_TICK_INTERVAL = sweep_s
    _module(_SCHEDULER)._SCHEDULE_TICK_INTERVAL = sweep_s


class _StackTime:
    """In place of the module `time`: another time; sleeping and all else are the machine's."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.time = now

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
        return getattr(time, name)


def _module(name: str) -> Any:  # noqa: ANN401 - ministack has no types
    return importlib.import_module(name)


def _has(module: str, name: str) -> bool:
    return hasattr(_module(module), name)


def _register(name: str, resource: ResourceType) -> None:
    provisioners = _module(_PROVISIONERS)

    def update(physical_id: str, old: Mapping[str, Any], new: Mapping[str, Any], _stack: str) -> Any:  # noqa: ANN401
        return resource.update(physical_id, old, new)

    provisioners._RESOURCE_HANDLERS[name] = {
        "create": resource.create,
        "update": update,
        "delete": resource.delete,
    }
    provisioners._REPLACING_PROPERTIES[name] = resource.replacing
