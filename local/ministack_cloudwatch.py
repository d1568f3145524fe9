"""ministack's CloudWatch: its store for our evaluator, and our PutMetricAlarm and GetMetricData in place of its own.

With `ministack_adapter` the only module that touches ministack's private names.
"""

# ruff: noqa: SLF001 - private hooks are what this module is for

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from xml.sax.saxutils import escape

import orjson

from local.aws_json import ValidationError, check, service_model
from local.cloudwatch.alarm_requests import RequestError, check_composite_alarm, check_metric_alarm, check_watched
from local.cloudwatch.math_values import MathError
from local.cloudwatch.metric_data import Result, metric_data
from local.cloudwatch.query_protocol import structured
from local.cloudwatch.samples import Sample

_CLOUDWATCH = "ministack.services.cloudwatch"
_EVENTS = "ministack.services.eventbridge"
_RESPONSES = "ministack.core.responses"
_PROVISIONERS = "ministack.services.cloudformation.provisioners"

HOOKS: Final[dict[str, tuple[str, ...]]] = {
    _CLOUDWATCH: (
        "_alarms",
        "_metrics",
        "_dims_key",
        "_evaluate_alarm",
        "_evaluate_all_alarms",
        "_set_alarm_state",
        "_put_metric_alarm",
        "_put_composite_alarm",
        "_get_metric_data",
        "_delete_alarms",
        "_parse_ts",
        "_ts_iso",
        "_cbor_ok",
        "_cbor_metric_data_result",
        "_json_ok",
        "_xml",
        "_error",
    ),
    _EVENTS: ("_put_events",),
    _RESPONSES: ("set_request_account_id", "set_request_region"),
}
"""Every name of ministack that this module touches, beside the provisioner of AWS::CloudWatch::Alarm."""

Answer = tuple[int, dict[str, str], bytes]
Handler = Callable[..., Answer]
_EXPRESSION = {"Namespace": "metric math", "MetricName": "expression"}
"""What ministack is told of an alarm on metric math, which it does not know."""
_OF_ONE_METRIC = ("Namespace", "MetricName", "Statistic", "ExtendedStatistic", "Period", "Dimensions", "Unit")
_DROPPED = ("EvaluateLowSampleCountPercentile", "Metrics")
"""What ministack does not keep of an alarm."""


def install() -> None:
    """Put our evaluation, PutMetricAlarm and GetMetricData in place of ministack's; once in a process."""
    store = _module(_CLOUDWATCH)
    store._evaluate_all_alarms = lambda: None
    store._evaluate_alarm = lambda _alarm: None
    if not hasattr(store._put_metric_alarm, "checks"):
        store._put_metric_alarm = _checked(store._put_metric_alarm, "PutMetricAlarm", check_metric_alarm, _keep)
        store._put_composite_alarm = _checked(
            store._put_composite_alarm, "PutCompositeAlarm", check_composite_alarm, lambda _: None
        )
        store._set_alarm_state = _told(store._set_alarm_state)
        store._get_metric_data = _get_metric_data
    _keep_whole_templates()


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
        yield from _samples(metric, since_s)

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


def _samples(metric: Mapping[str, Any], since_s: float) -> Iterator[Sample]:
    store = _module(_CLOUDWATCH)
    dimensions = {entry["Name"]: entry["Value"] for entry in metric.get("Dimensions") or ()}
    key = (metric["Namespace"], metric["MetricName"], store._dims_key(dimensions))
    unit = metric.get("Unit")
    for point in store._metrics.get(key) or ():
        if point["Timestamp"] >= since_s and unit in {None, "", point.get("Unit")}:
            yield _sample(point)


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


def _checked(
    handler: Handler,
    operation: str,
    refuse: Callable[[Mapping[str, Any]], None],
    keep: Callable[[Mapping[str, Any]], None],
) -> Handler:
    """Give ministack's handler behind a check of ours, and keep what it drops."""

    def handle(params: Any, data: Any, is_cbor: bool, is_json: bool = False) -> Answer:  # noqa: ANN401, FBT001, FBT002 - as ministack calls it
        try:
            request = _request(operation, params, data, structured_already=is_cbor or is_json)
            refuse(request)
        except (RequestError, ValidationError) as error:
            return _refused(str(error), is_cbor=is_cbor, is_json=is_json)
        answer = handler(params, data, is_cbor, is_json)
        if answer[0] == 200:  # noqa: PLR2004 - HTTP's OK
            keep(request)
        return answer

    handle.checks = refuse  # type: ignore[attr-defined]
    return handle


def _told(handler: Handler) -> Handler:
    """Give ministack's SetAlarmState, which tells EventBridge of each change, as CloudWatch does."""

    def handle(params: Any, data: Any, is_cbor: bool, is_json: bool = False) -> Answer:  # noqa: ANN401, FBT001, FBT002 - as ministack calls it
        try:
            request = _request("SetAlarmState", params, data, structured_already=is_cbor or is_json)
        except ValidationError as error:
            return _refused(str(error), is_cbor=is_cbor, is_json=is_json)
        alarm = _module(_CLOUDWATCH)._alarms.get(request["AlarmName"]) or {}
        before = str(alarm.get("StateValue"))
        answer = handler(params, data, is_cbor, is_json)
        if alarm and alarm["StateValue"] != before:
            _tell_events(alarm, before, data=request.get("StateReasonData"))
        return answer

    return handle


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


def _get_metric_data(params: Any, data: Any, is_cbor: bool, is_json: bool = False) -> Answer:  # noqa: ANN401, FBT001, FBT002 - as ministack calls it
    store = _module(_CLOUDWATCH)
    try:
        request = _request("GetMetricData", params, data, structured_already=is_cbor or is_json)
        start, end = (store._parse_ts(request[name]) or 0.0 for name in ("StartTime", "EndTime"))
        ascending = request.get("ScanBy") == "TimestampAscending"
        found = metric_data(request["MetricDataQueries"], _samples, start_s=start, end_s=end, ascending=ascending)
    except (RequestError, ValidationError, MathError) as error:
        return _refused(str(error), is_cbor=is_cbor, is_json=is_json)
    results = [
        {
            "Id": result.id,
            "Label": result.label,
            "Timestamps": [store._ts_iso(time) for time in result.timestamps],
            "Values": list(result.values),
            "StatusCode": "Complete",
        }
        for result in found
    ]
    answer: Answer
    if is_cbor:
        answer = store._cbor_ok({"MetricDataResults": [store._cbor_metric_data_result(result) for result in results]})
    elif is_json:
        answer = store._json_ok({"MetricDataResults": results})
    else:
        answer = store._xml(200, "GetMetricDataResponse", _xml(found, store._ts_iso))
    return answer


def _xml(results: list[Result], moment: Callable[[float], str]) -> str:
    members = "".join(
        f"<member><Id>{result.id}</Id><Label>{escape(result.label)}</Label><StatusCode>Complete</StatusCode>"
        f"<Timestamps>{''.join(f'<member>{moment(time)}</member>' for time in result.timestamps)}</Timestamps>"
        f"<Values>{''.join(f'<member>{value!r}</member>' for value in result.values)}</Values></member>"
        for result in results
    )
    return f"<GetMetricDataResult><MetricDataResults>{members}</MetricDataResults></GetMetricDataResult>"


def _refused(message: str, *, is_cbor: bool, is_json: bool) -> Answer:
    answer: Answer = _module(_CLOUDWATCH)._error("ValidationError", message, 400, use_json=is_json, use_cbor=is_cbor)
    return answer


def _request(operation: str, params: Any, data: Any, *, structured_already: bool) -> dict[str, Any]:  # noqa: ANN401 - ministack's own
    """Give a request's parameters as boto3 takes them, whatever the protocol was.

    Raises:
        ValidationError: they do not fit botocore's model of the operation.

    """
    shape = service_model("cloudwatch").operation_model(operation).input_shape
    if shape is None:
        return {}
    if structured_already:
        request = {name: value for name, value in data.items() if value is not None}
    else:
        request = structured(
            {name: value[0] if isinstance(value, list) else value for name, value in params.items()}, shape
        )
    check(request, shape)
    return request


def _keep_whole_templates() -> None:
    """Keep what ministack drops or refuses of a template's alarm: percentile rule and metric math."""
    handler = _module(_PROVISIONERS)._RESOURCE_HANDLERS["AWS::CloudWatch::Alarm"]
    create, update = handler["create"], handler["update"]

    def taken(properties: Mapping[str, Any], *, checked: bool) -> dict[str, Any]:
        if checked and "Metrics" in properties:
            check_watched(properties["Metrics"])
        plain = {name: value for name, value in properties.items() if name != "Metrics"}
        return plain | (_EXPRESSION if "Metrics" in properties else {})

    def keep(result: Any, properties: Mapping[str, Any]) -> Any:  # noqa: ANN401 - ministack's own value
        _keep({**properties, "AlarmName": result[0]})
        return result

    handler["create"] = lambda logical, new, stack: keep(create(logical, taken(new, checked=True), stack), new)
    handler["update"] = lambda physical, old, new, stack, logical: keep(
        update(physical, taken(old, checked=False), taken(new, checked=True), stack, logical), new
    )
