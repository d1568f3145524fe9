"""The only module that knows ministack: its private hooks, how it is told its settings, and what it gets wrong.

ministack is pinned exactly; tests/unit/local/test_adapter_contract.py fails when one of these hooks moves.
"""

# ruff: noqa: SLF001 - private hooks are what this module is for

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from local.alarms import Sample
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
_RESPONSES = "ministack.core.responses"
_SWEEP_S = 10.0
"""How often ministack looks for due schedules."""

HOOKS: dict[str, tuple[str, ...]] = {
    _APP: ("app",),
    _PROVISIONERS: ("_RESOURCE_HANDLERS", "_REPLACING_PROPERTIES"),
    _STACKS: ("_runs_on_worker_thread",),
    _CLOUDWATCH: (
        "_alarms",
        "_metrics",
        "_dims_key",
        "_evaluate_alarm",
        "_evaluate_all_alarms",
        "_set_alarm_state",
        "time",
    ),
    _EVENTS: ("_put_events", "time", "_SCHEDULER_TICK_INTERVAL"),
    _SCHEDULER: ("time", "_SCHEDULE_TICK_INTERVAL"),
    _RESPONSES: ("set_request_account_id", "set_request_region"),
}
"""Every name of ministack that this module touches."""


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
    _keep_whole_alarms()
    cloudwatch = _module(_CLOUDWATCH)
    cloudwatch._evaluate_all_alarms = lambda: None
    cloudwatch._evaluate_alarm = lambda _alarm: None
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


class CloudWatch:
    """Alarms and samples as ministack keeps them, for one account and region."""

    def __init__(self, *, region: str, account: str) -> None:
        self._region = region
        self._account = account
        self._store = _module(_CLOUDWATCH)
        self._events = _module(_EVENTS)

    def enter(self) -> None:
        """Make the current context that of the account and region, as a request does."""
        responses = _module(_RESPONSES)
        responses.set_request_account_id(self._account)
        responses.set_request_region(self._region)

    def alarms(self) -> list[dict[str, Any]]:
        """Give the metric alarms as DescribeAlarms does."""
        return [dict(alarm) for alarm in self._store._alarms.values()]

    def samples(self, alarm: Mapping[str, Any], *, since_s: float) -> Iterator[Sample]:
        """Give what was published of exactly the alarm's metric: namespace, name and all dimensions."""
        dimensions = {entry["Name"]: entry["Value"] for entry in alarm["Dimensions"]}
        key = (alarm["Namespace"], alarm["MetricName"], self._store._dims_key(dimensions))
        for point in self._store._metrics.get(key) or ():
            if point["Timestamp"] >= since_s:
                yield _sample(point)

    def set_state(self, alarm: Mapping[str, Any], state: str, reason: str, data: str) -> None:
        """Move an alarm as SetAlarmState does (history, actions, composite alarms) and tell EventBridge."""
        document = {
            "AlarmName": alarm["AlarmName"],
            "StateValue": state,
            "StateReason": reason,
            "StateReasonData": data,
        }
        self._store._set_alarm_state({}, document, False, True)
        detail = {
            "alarmName": alarm["AlarmName"],
            "state": {"value": state, "reason": reason, "reasonData": data},
            "previousState": {"value": alarm["StateValue"]},
        }
        entry = {
            "Source": "aws.cloudwatch",
            "DetailType": "CloudWatch Alarm State Change",
            "Resources": [alarm["AlarmArn"]],
            "Detail": orjson.dumps(detail).decode(),
        }
        self._events._put_events({"Entries": [entry]}, allow_aws_source=True)


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


_EXPRESSION = {"Namespace": "metric math", "MetricName": "expression"}
_DROPPED = ("EvaluateLowSampleCountPercentile", "Metrics")


def _keep_whole_alarms() -> None:
    """Keep what ministack drops or refuses of a template's alarm: percentile rule and metric math.

    An alarm on metric math gets a metric that nobody publishes; `local.alarms` leaves its state alone.
    """
    alarms = _module(_CLOUDWATCH)._alarms
    handler = _module(_PROVISIONERS)._RESOURCE_HANDLERS["AWS::CloudWatch::Alarm"]
    create, update = handler["create"], handler["update"]

    def taken(properties: Mapping[str, Any]) -> dict[str, Any]:
        plain = {name: value for name, value in properties.items() if name != "Metrics"}
        return plain | (_EXPRESSION if "Metrics" in properties else {})

    def keep(result: Any, properties: Mapping[str, Any]) -> Any:  # noqa: ANN401 - ministack's own value
        alarms[result[0]].update({name: properties[name] for name in _DROPPED if name in properties})
        return result

    handler["create"] = lambda logical, new, stack: keep(create(logical, taken(new), stack), new)
    handler["update"] = lambda physical, old, new, stack, logical: keep(
        update(physical, taken(old), taken(new), stack, logical), new
    )


def _sample(point: Mapping[str, Any]) -> Sample:
    statistics = point.get("_stat")
    if statistics is None:
        return Sample.of_value(float(point["Timestamp"]), float(point["Value"]), float(point.get("Count", 1)))
    return Sample(
        timestamp_s=float(point["Timestamp"]),
        count=float(statistics.get("SampleCount", 0)),
        total=float(statistics.get("Sum", 0)),
        least=float(statistics.get("Minimum", 0)),
        most=float(statistics.get("Maximum", 0)),
    )
