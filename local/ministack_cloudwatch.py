"""ministack's CloudWatch: its alarms for our evaluator, and our checks before its own PutMetricAlarm.

With `ministack_adapter` and `ministack_metrics` the only module that touches ministack's private names.
"""

# ruff: noqa: SLF001 - private hooks are what this module is for

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from local import ministack_metrics
from local.aws_json import ValidationError
from local.cloudwatch.alarm_requests import RequestError, check_composite_alarm, check_metric_alarm
from local.cloudwatch.samples import Sample
from local.ministack_metrics import Answer, Wire, samples
from local.template_types import request_of

_CLOUDWATCH = "ministack.services.cloudwatch"
_EVENTS = "ministack.services.eventbridge"
_RESPONSES = "ministack.core.responses"
_PROVISIONERS = "ministack.services.cloudformation.provisioners"

HOOKS: Final[dict[str, tuple[str, ...]]] = {
    _CLOUDWATCH: (
        "_alarms",
        "_composite_alarms",
        "_metrics",
        "_dims_key",
        "_evaluate_alarm",
        "_evaluate_all_alarms",
        "_set_alarm_state",
        "_put_metric_alarm",
        "_put_composite_alarm",
        "_transition_composite",
        "_delete_alarms",
        "_evict_old_metrics",
        *ministack_metrics.HOOKS,
    ),
    _EVENTS: ("_put_events",),
    _RESPONSES: ("set_request_account_id", "set_request_region"),
}
"""Every name of ministack that this module touches, beside the provisioner of AWS::CloudWatch::Alarm."""

_EVICTION_S: Final = 60.0
Handler = Callable[..., Answer]
_EXPRESSION = {"Namespace": "metric math", "MetricName": "expression"}
"""What ministack is told of an alarm on metric math, which it does not know."""
_OF_ONE_METRIC = ("Namespace", "MetricName", "Statistic", "ExtendedStatistic", "Period", "Dimensions", "Unit")
_DROPPED = ("EvaluateLowSampleCountPercentile", "InsufficientDataActions", "Metrics")
"""What ministack does not keep of an alarm: in templates, or in one of its protocols."""


def install() -> None:
    """Put our evaluation, checks and reading of metrics in place of ministack's; once in a process."""
    store = _module(_CLOUDWATCH)
    store._evaluate_all_alarms = lambda: None
    store._evaluate_alarm = lambda _alarm: None
    if not hasattr(store._put_metric_alarm, "checks"):
        store._put_metric_alarm = _checked(store._put_metric_alarm, "PutMetricAlarm", check_metric_alarm, _keep)
        store._put_composite_alarm = _checked(
            store._put_composite_alarm, "PutCompositeAlarm", check_composite_alarm, lambda _: None
        )
        store._set_alarm_state = _told(store._set_alarm_state)
        store._transition_composite = _told_of_composite(store._transition_composite)
        store._get_metric_data = ministack_metrics.get_metric_data
        store._get_metric_statistics = ministack_metrics.get_metric_statistics
        store._evict_old_metrics = seldom(store._evict_old_metrics)
    _keep_whole_templates()


def seldom(work: Callable[[], None], *, now: Callable[[], float] = time.monotonic) -> Callable[[], None]:
    """Give work that is done once a minute at most: ministack copies all that was ever published at each request."""
    done_s = -math.inf

    def perhaps() -> None:
        nonlocal done_s
        if now() - done_s >= _EVICTION_S:
            done_s = now()
            work()

    return perhaps


class CloudWatch:
    """Alarms and samples as ministack keeps them, for one account and region."""

    def __init__(self, *, region: str, account: str) -> None:
        self._region = region
        self._account = account
        self._store = _module(_CLOUDWATCH)

    def enter(self) -> None:
        """Make the current context that of the account and region, as a request does."""
        responses = _module(_RESPONSES)
        responses.set_request_account_id(self._account)
        responses.set_request_region(self._region)

    def alarms(self) -> list[dict[str, Any]]:
        """Give the metric alarms as DescribeAlarms does."""
        self.enter()
        return [dict(alarm) for alarm in self._store._alarms.values()]

    def samples(self, metric: Mapping[str, Any], since_s: float) -> Iterator[Sample]:
        """Give what was published of exactly one metric: namespace, name, dimensions, and its Unit if it has one."""
        yield from samples(metric, since_s)

    def set_state(self, alarm: Mapping[str, Any], state: str, reason: str, data: str) -> None:
        """Move an alarm as SetAlarmState does: history, actions, composite alarms, EventBridge."""
        document = {
            "AlarmName": alarm["AlarmName"],
            "StateValue": state,
            "StateReason": reason,
            "StateReasonData": data,
        }
        self._store._set_alarm_state({}, document, False, True)

    def put_alarm(self, request: Mapping[str, Any]) -> None:
        """Make or change an alarm as PutMetricAlarm does.

        Raises:
            RequestError: CloudWatch would refuse it.

        """
        self.enter()
        check_metric_alarm(request)
        self._store._put_metric_alarm({}, dict(request), False, True)

    def delete_alarms(self, names: list[str]) -> None:
        """Delete alarms as DeleteAlarms does; what is gone already is no error."""
        self.enter()
        self._store._delete_alarms({}, {"AlarmNames": names}, False, True)


def _module(name: str) -> Any:  # noqa: ANN401 - ministack has no types
    return importlib.import_module(name)


def _checked(
    handler: Handler,
    operation: str,
    refuse: Callable[[Mapping[str, Any]], None],
    keep: Callable[[Mapping[str, Any]], None],
) -> Handler:
    """Give ministack's handler behind a check of ours, and keep what it drops."""

    def handle(params: Any, data: Any, is_cbor: bool, is_json: bool = False) -> Answer:  # noqa: ANN401, FBT001, FBT002 - as ministack calls it
        wire = Wire(operation, is_cbor=is_cbor, is_json=is_json)
        try:
            request = wire.request(params, data)
            refuse(request)
        except (RequestError, ValidationError) as error:
            return wire.refused(str(error))
        answer = handler(params, data, is_cbor, is_json)
        if answer[0] == 200:  # noqa: PLR2004 - HTTP's OK
            keep(request)
        return answer

    handle.checks = refuse  # type: ignore[attr-defined]
    return handle


def _told(handler: Handler) -> Handler:
    """Give ministack's SetAlarmState, which tells EventBridge of each change, as CloudWatch does."""

    def handle(params: Any, data: Any, is_cbor: bool, is_json: bool = False) -> Answer:  # noqa: ANN401, FBT001, FBT002 - as ministack calls it
        wire = Wire("SetAlarmState", is_cbor=is_cbor, is_json=is_json)
        try:
            request = wire.request(params, data)
        except ValidationError as error:
            return wire.refused(str(error))
        name, store = request["AlarmName"], _module(_CLOUDWATCH)
        alarm = store._alarms.get(name) or store._composite_alarms.get(name) or {}
        before = str(alarm.get("StateValue"))
        answer = handler(params, data, is_cbor, is_json)
        if alarm and alarm["StateValue"] != before:
            _tell_events(alarm, before, data=request.get("StateReasonData"))
        return answer

    return handle


def _told_of_composite(transition: Callable[..., None]) -> Callable[..., None]:
    """Give ministack's change of a composite alarm's state, which tells EventBridge of it."""

    def move(alarm: dict[str, Any], *arguments: Any) -> None:  # noqa: ANN401 - as ministack calls it
        before = str(alarm["StateValue"])
        transition(alarm, *arguments)
        if alarm["StateValue"] != before:
            _tell_events(alarm, before, data=alarm.get("StateReasonData"))

    return move


def _tell_events(alarm: Mapping[str, Any], before: str, *, data: str | None) -> None:
    state = {"value": alarm["StateValue"], "reason": alarm["StateReason"], **({"reasonData": data} if data else {})}
    entry = {
        "Source": "aws.cloudwatch",
        "DetailType": "CloudWatch Alarm State Change",
        "Resources": [alarm["AlarmArn"]],
        "Detail": orjson.dumps(
            {"alarmName": alarm["AlarmName"], "state": state, "previousState": {"value": before}}
        ).decode(),
    }
    _module(_EVENTS)._put_events({"Entries": [entry]}, allow_aws_source=True)


def _keep(request: Mapping[str, Any]) -> None:
    """Keep what ministack drops of an alarm, and drop what it adds to one on metric math."""
    alarm = _module(_CLOUDWATCH)._alarms[request["AlarmName"]]
    alarm.update({name: request[name] for name in _DROPPED if request.get(name)})
    if request.get("Metrics"):
        for name in _OF_ONE_METRIC:
            alarm.pop(name, None)


def _keep_whole_templates() -> None:
    """Hold a template's alarm to our checks, and keep what ministack drops or refuses: percentile rule, metric math."""
    handler = _module(_PROVISIONERS)._RESOURCE_HANDLERS["AWS::CloudWatch::Alarm"]
    create, update = handler["create"], handler["update"]

    def taken(properties: Mapping[str, Any], *, checked: bool) -> dict[str, Any]:
        if checked:
            check_metric_alarm(request_of(properties, "PutMetricAlarm", service="cloudwatch"))
        plain = {name: value for name, value in properties.items() if name != "Metrics"}
        return plain | (_EXPRESSION if "Metrics" in properties else {})

    def keep(result: Any, properties: Mapping[str, Any]) -> Any:  # noqa: ANN401 - ministack's own value
        _keep({**properties, "AlarmName": result[0]})
        return result

    handler["create"] = lambda logical, new, stack: keep(create(logical, taken(new, checked=True), stack), new)
    handler["update"] = lambda physical, old, new, stack, logical: keep(
        update(physical, taken(old, checked=False), taken(new, checked=True), stack, logical), new
    )
