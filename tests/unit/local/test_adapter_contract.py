"""The contract with ministack's private hooks: it fails when the pinned release changes one of them."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest

from local import ministack_adapter
from local.alarm_watch import AlarmWatch
from local.clock import SystemClock
from local.ministack_adapter import HOOKS
from local.ministack_cloudwatch import CloudWatch, seldom
from local.resource_types import Target, resource_types
from serving.errors import LocalStackError

REGION, ACCOUNT = "us-east-1", "123456789012"
ALARM = "endpoint-errors-a"


@pytest.fixture(name="hooked", scope="module")
def hooked_fixture() -> None:
    target = Target(endpoint_url="http://127.0.0.1:1", region=REGION)
    ministack_adapter.application(resource_types(target))


@pytest.fixture(name="cloudwatch")
def cloudwatch_fixture(hooked: None) -> Iterator[Any]:  # noqa: ARG001 - it needs the hooks in place
    store = import_module("ministack.services.cloudwatch")
    CloudWatch(region=REGION, account=ACCOUNT).enter()
    store.reset()
    yield store
    store.reset()


def test_the_pinned_release_is_installed_and_has_every_hook() -> None:
    ministack_adapter.check()


@pytest.mark.usefixtures("hooked")  # all is imported already: its own imports need the names too
@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in HOOKS.items() for name in names])
def test_a_moved_hook_is_named(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(import_module(module), name)
    with pytest.raises(LocalStackError, match=f"{module}.{name}"):
        ministack_adapter.check()


def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ministack_adapter, "version", lambda _: "9.9.9")
    with pytest.raises(LocalStackError, match=r"got 9\.9\.9; allowed: 1\.5\.33"):
        ministack_adapter.check()


@pytest.mark.usefixtures("hooked")
def test_handlers_are_called_as_ours_are_written() -> None:
    provisioners = import_module("ministack.services.cloudformation.provisioners")
    calls = inspect.getsource(provisioners._provision_resource) + inspect.getsource(provisioners._update_resource)
    assert 'handler["create"](logical_id, props, stack_name)' in calls
    assert 'handler["update"](physical_id, old_props, new_props, stack_name)' in calls
    assert 'handler["delete"](physical_id, props)' in inspect.getsource(provisioners._delete_resource)


@pytest.mark.usefixtures("hooked")
def test_our_types_are_known_and_run_off_the_loop() -> None:
    provisioners = import_module("ministack.services.cloudformation.provisioners")
    stacks = import_module("ministack.services.cloudformation.stacks")
    for name in ("AWS::SageMaker::Endpoint", "AWS::ApplicationAutoScaling::ScalingPolicy"):
        assert name in provisioners._RESOURCE_HANDLERS
        assert stacks._runs_on_worker_thread(name)
    assert not stacks._runs_on_worker_thread("AWS::S3::Bucket")


def put_alarm(store: Any, **changes: Any) -> None:
    alarm = {
        "AlarmName": ALARM,
        "Namespace": "AWS/SageMaker",
        "MetricName": "Invocation5XXErrors",
        "Dimensions": [{"Name": "EndpointName", "Value": "e"}, {"Name": "VariantName", "Value": "a"}],
        "Statistic": "Average",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 0.5,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "notBreaching",
        **changes,
    }
    status, _, body = store._put_metric_alarm({}, alarm, False, True)
    assert status == 200, body


def put_errors(store: Any, variant: str, **datum: Any) -> None:
    dimensions = [{"Name": "VariantName", "Value": variant}, {"Name": "EndpointName", "Value": "e"}]
    data = {"MetricName": "Invocation5XXErrors", "Dimensions": dimensions, "Timestamp": time.time() - 5, **datum}
    status, _, body = store._put_metric_data({}, {"Namespace": "AWS/SageMaker", "MetricData": [data]}, False, True)
    assert status == 200, body


def described(store: Any) -> dict[str, Any]:
    _, _, body = store._describe_alarms({}, {"AlarmNames": [ALARM]}, False, True)
    found: dict[str, Any] = json.loads(body)["MetricAlarms"][0]
    return found


def look() -> None:
    AlarmWatch(CloudWatch(region=REGION, account=ACCOUNT), clock=SystemClock()).tick(
        datetime.now(UTC) + timedelta(seconds=1)
    )


def test_another_variants_errors_leave_an_alarm_alone(cloudwatch: Any) -> None:
    put_alarm(cloudwatch)
    put_errors(cloudwatch, "b", Value=1000.0)
    look()
    assert described(cloudwatch)["StateValue"] == "OK"


@pytest.mark.parametrize(
    "datum",
    [
        {"Value": 1.0},
        {"Values": [0.0, 1.0], "Counts": [1.0, 9.0]},
        {"StatisticValues": {"SampleCount": 10.0, "Sum": 9.0, "Minimum": 0.0, "Maximum": 1.0}},
    ],
)
def test_its_own_errors_raise_an_alarm_with_a_reason_and_history(cloudwatch: Any, datum: dict[str, Any]) -> None:
    put_alarm(cloudwatch)
    put_errors(cloudwatch, "a", **datum)
    assert described(cloudwatch)["StateValue"] == "INSUFFICIENT_DATA", "ministack's own evaluation must be off"
    look()
    alarm = described(cloudwatch)
    assert alarm["StateValue"] == "ALARM"
    assert alarm["StateReason"].startswith("Threshold Crossed: 1 ")
    assert json.loads(alarm["StateReasonData"])["threshold"] == 0.5
    history = cloudwatch._history_entries()
    assert "from INSUFFICIENT_DATA to ALARM" in history[-1]["HistorySummary"]


def test_a_change_of_state_is_an_event_of_cloudwatch(cloudwatch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    events = import_module("ministack.services.eventbridge")
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(events, "_dispatch_event", lambda event, *_: seen.append(event))
    put_alarm(cloudwatch)
    put_errors(cloudwatch, "a", Value=1.0)
    look()
    look()
    assert [event["DetailType"] for event in seen] == ["CloudWatch Alarm State Change"], "told once, not at each look"
    detail = json.loads(seen[0]["Detail"])
    assert (detail["state"]["value"], detail["previousState"]["value"]) == ("ALARM", "INSUFFICIENT_DATA")
    for _ in range(2):
        by_hand = {"AlarmName": ALARM, "StateValue": "OK", "StateReason": "by hand"}
        assert cloudwatch._set_alarm_state({}, by_hand, False, True)[0] == 200
    assert [json.loads(event["Detail"])["state"]["value"] for event in seen] == ["ALARM", "OK"]


def test_a_change_of_a_composite_alarm_is_an_event_too(cloudwatch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    events = import_module("ministack.services.eventbridge")
    seen: list[tuple[str, str, str]] = []

    def note(event: dict[str, Any], *_: Any) -> None:
        detail = json.loads(event["Detail"])
        seen.append((detail["alarmName"], detail["previousState"]["value"], detail["state"]["value"]))

    monkeypatch.setattr(events, "_dispatch_event", note)
    put_alarm(cloudwatch)
    rule = {"AlarmName": "both", "AlarmRule": f"ALARM({ALARM})"}
    assert cloudwatch._put_composite_alarm({}, rule, False, True)[0] == 200
    put_errors(cloudwatch, "a", Value=1.0)
    look()
    assert [change for change in seen if change[0] == "both"] == [
        ("both", "INSUFFICIENT_DATA", "OK"),
        ("both", "OK", "ALARM"),
    ]
    assert seen.count((ALARM, "INSUFFICIENT_DATA", "ALARM")) == 1
    for _ in range(2):
        by_hand = {"AlarmName": "both", "StateValue": "OK", "StateReason": "by hand"}
        assert cloudwatch._set_alarm_state({}, by_hand, False, True)[0] == 200
    assert seen[-1] == ("both", "ALARM", "OK")
    assert len([change for change in seen if change[0] == "both"]) == 3


@pytest.mark.usefixtures("cloudwatch")
def test_a_templates_rule_for_few_samples_is_kept() -> None:
    handlers = import_module("ministack.services.cloudformation.provisioners")._RESOURCE_HANDLERS
    properties = {
        "AlarmName": ALARM,
        "Namespace": "AWS/SageMaker",
        "MetricName": "ModelLatency",
        "ExtendedStatistic": "p99",
        "EvaluateLowSampleCountPercentile": "ignore",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    handlers["AWS::CloudWatch::Alarm"]["create"]("Alarm", properties, "stack")
    [alarm] = CloudWatch(region=REGION, account=ACCOUNT).alarms()
    assert alarm["EvaluateLowSampleCountPercentile"] == "ignore"


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        ("_put_metric_alarm", {}),
        ("_put_metric_alarm", {"AlarmName": None}),
        ("_put_metric_alarm", {"AlarmName": ALARM, "Threshold": "high"}),
        ("_put_metric_alarm", {"AlarmName": ALARM, "Metrics": "all"}),
        ("_put_metric_alarm", {"AlarmName": ALARM, "Metrics": [{"Id": 1}]}),
        ("_put_metric_alarm", {"AlarmName": ALARM, "Metrics": [{"Id": "m", "MetricStat": {}}]}),
        ("_put_metric_alarm", {"AlarmName": ALARM, "Dimensions": [{"Name": "n"}]}),
        ("_put_composite_alarm", {"AlarmName": ALARM}),
        ("_set_alarm_state", {"AlarmName": ALARM, "StateValue": "LOUD", "StateReason": "r"}),
        ("_get_metric_data", {"MetricDataQueries": []}),
        ("_get_metric_data", {"StartTime": 0, "EndTime": 60, "MetricDataQueries": [{"Id": "m", "MetricStat": {}}]}),
        ("_get_metric_data", {"StartTime": 60, "EndTime": 60, "MetricDataQueries": [{"Id": "m", "Expression": "1"}]}),
    ],
)
def test_requests_that_no_client_would_send_are_validation_errors_too(
    cloudwatch: Any, operation: str, request_: dict[str, Any]
) -> None:
    whole = (
        {"EvaluationPeriods": 1, "ComparisonOperator": "GreaterThanThreshold"} if "metric_alarm" in operation else {}
    )
    status, _, body = getattr(cloudwatch, operation)({}, whole | request_, False, True)
    assert (status, json.loads(body)["__type"]) == (400, "ValidationError")
    assert CloudWatch(region=REGION, account=ACCOUNT).alarms() == []


def metric_of(name: str, *, variant: str = "a") -> dict[str, Any]:
    dimensions = [{"Name": "EndpointName", "Value": "e"}, {"Name": "VariantName", "Value": variant}]
    metric = {"Namespace": "AWS/SageMaker", "MetricName": name, "Dimensions": dimensions}
    return {"Metric": metric, "Period": 60, "Stat": "Sum"}


def math_properties(expression: str, threshold: float) -> dict[str, Any]:
    errors = {"Id": "errors", "ReturnData": False, "MetricStat": metric_of("Invocation5XXErrors")}
    return {
        "AlarmName": ALARM,
        "Metrics": [{"Id": "rate", "Expression": expression}, errors],
        "EvaluationPeriods": 1,
        "Threshold": threshold,
        "ComparisonOperator": "GreaterThanThreshold",
    }


def test_a_templates_alarm_on_metric_math_is_made_changed_and_evaluated(cloudwatch: Any) -> None:
    alarm = import_module("ministack.services.cloudformation.provisioners")._RESOURCE_HANDLERS["AWS::CloudWatch::Alarm"]
    properties, changed = math_properties("errors * 2", 9), math_properties("errors * 3", 9)
    physical, _ = alarm["create"]("Alarm", properties, "stack")
    put_errors(cloudwatch, "a", Value=4.0)
    look()
    assert described(cloudwatch)["StateValue"] == "OK"
    alarm["update"](physical, properties, changed, "stack", "Alarm")
    look()
    kept = described(cloudwatch)
    assert (kept["StateValue"], kept["Metrics"]) == ("ALARM", changed["Metrics"])
    assert not {"MetricName", "Namespace", "Period", "Statistic"} & kept.keys(), "AWS describes none of them"
    alarm["delete"](physical, changed)
    assert CloudWatch(region=REGION, account=ACCOUNT).alarms() == []


@pytest.mark.usefixtures("cloudwatch")
def test_a_template_whose_metric_math_is_wrong_is_refused_when_it_is_deployed() -> None:
    alarm = import_module("ministack.services.cloudformation.provisioners")._RESOURCE_HANDLERS["AWS::CloudWatch::Alarm"]
    with pytest.raises(LocalStackError, match="Function 'NOSUCH' not found"):
        alarm["create"]("Alarm", math_properties("NOSUCH(errors)", 1), "stack")
    assert CloudWatch(region=REGION, account=ACCOUNT).alarms() == []


def test_old_metrics_are_looked_for_once_a_minute_however_many_requests_come() -> None:
    looked: list[float] = []
    at = 0.0
    evict = seldom(lambda: looked.append(at), now=lambda: at)
    for tenths in range(3001):
        at = tenths / 10
        evict()
    assert looked == [0.0, 60.0, 120.0, 180.0, 240.0, 300.0]


def test_an_alarm_that_cannot_be_evaluated_leaves_the_others_alone(
    cloudwatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    put_alarm(cloudwatch)
    put_alarm(cloudwatch, AlarmName="band")
    cloudwatch._alarms["band"]["ComparisonOperator"] = "GreaterThanUpperThreshold"
    put_errors(cloudwatch, "a", Value=1.0)
    watch = AlarmWatch(CloudWatch(region=REGION, account=ACCOUNT), clock=SystemClock())
    for _ in range(3):
        watch.tick(datetime.now(UTC) + timedelta(seconds=1))
    assert described(cloudwatch)["StateValue"] == "ALARM"
    assert caplog.text.count("alarm band cannot be evaluated") == 1, "told once, not at each look"
