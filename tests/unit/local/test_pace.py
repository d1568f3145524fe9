"""At a pace, everything that carries or waits for a time in the stack does so on the stack's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local import ministack_adapter
from local.clock import MAX_PACE
from local.sagemaker.options import Options

MOMENT = 2_000_000_000.0
"""Far from the machine's time."""

KEEPERS = ("ministack.services.cloudwatch", "ministack.services.eventbridge", "ministack.services.scheduler")
INTERVALS = ("_SCHEDULER_TICK_INTERVAL", "_SCHEDULE_TICK_INTERVAL")


@pytest.fixture(name="moment")
def moment_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Give the stack's time, which the test moves; ministack has the machine's again afterwards."""
    for name in KEEPERS:
        module = import_module(name)
        monkeypatch.setattr(module, "time", time)
        for interval in INTERVALS:
            if hasattr(module, interval):
                monkeypatch.setattr(module, interval, getattr(module, interval))
    moment = [MOMENT]
    ministack_adapter.keep_time(lambda: moment[0], pace=60.0)
    yield moment
    import_module(KEEPERS[0]).reset()
    import_module(KEEPERS[1]).reset()


def test_a_metric_without_a_time_gets_the_stacks(moment: list[float]) -> None:
    store = import_module(KEEPERS[0])
    data = {"Namespace": "N", "MetricData": [{"MetricName": "M", "Value": 1.0}]}
    status, _, body = store._put_metric_data({}, data, False, True)
    assert status == 200, body
    assert [point["Timestamp"] for points in store._metrics.values() for point in points] == [moment[0]]


def test_a_scheduled_rule_fires_when_its_rate_has_passed_on_the_stacks_time(
    moment: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = import_module(KEEPERS[1])
    fired: list[float] = []
    monkeypatch.setattr(events, "_invoke_target", lambda _target, event, *_more: fired.append(event["Time"]))
    rule = {"Name": "tick", "ScheduleExpression": "rate(5 minutes)", "State": "ENABLED"}
    events._ensure_default_bus()
    events._put_rule(rule)
    events._put_targets(
        {"Rule": "tick", "Targets": [{"Id": "1", "Arn": "arn:aws:lambda:us-east-1:000000000000:function:f"}]}
    )
    for passed in (0, 299, 300, 599, 600):
        moment[0] = MOMENT + passed
        events._tick_scheduled_rules()
    assert fired == [MOMENT + 300, MOMENT + 600]


@pytest.mark.usefixtures("moment")
def test_schedules_are_looked_at_often_enough_at_a_pace() -> None:
    looks = [import_module(KEEPERS[1])._SCHEDULER_TICK_INTERVAL, import_module(KEEPERS[2])._SCHEDULE_TICK_INTERVAL]
    assert looks == pytest.approx([0.25, 0.25])
    ministack_adapter.keep_time(time.time, pace=1.0)
    at_one: float = import_module(KEEPERS[1])._SCHEDULER_TICK_INTERVAL
    assert at_one == pytest.approx(10.0)


@given(pace=st.floats(1, MAX_PACE))
def test_at_any_pace_each_minute_has_metrics_and_statuses_last_as_long_for_who_looks(pace: float) -> None:
    usual, fast = Options(), Options().at_pace(pace)
    assert fast.metrics_interval_s * pace <= max(60.0, usual.metrics_interval_s * pace) + 1e-9
    assert fast.metrics_interval_s >= 0.25 - 1e-9
    assert fast.weights_update_s / pace == pytest.approx(usual.weights_update_s)
    assert fast.bake_pace * pace >= usual.bake_pace - 1e-9
    assert fast.bake_pace >= 1


def test_at_the_machines_pace_nothing_is_other_than_before() -> None:
    assert Options().at_pace(1.0) == Options()


def test_from_pace_60_on_deployments_and_alarms_share_one_time() -> None:
    assert Options().at_pace(60.0).bake_pace == 1.0
    assert Options().at_pace(MAX_PACE).bake_pace == 1.0
