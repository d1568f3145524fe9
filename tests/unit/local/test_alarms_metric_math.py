"""Alarms on metric math: the rules of one metric over an expression's datapoints, and the stacks' own expressions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.alarms import Outcome, evaluate
from local.cloudwatch.alarm_requests import check_watched
from local.cloudwatch.samples import Sample

NOW = datetime(2026, 12, 1, 4, 0, tzinfo=UTC)
PERIOD_S = 60
GAP = None
SHARE = "IF(requests > 0, errors / requests, 0)"


def published(*values: float | None, period_s: float = PERIOD_S) -> list[Sample]:
    """One sample a period, oldest first, the last one in the newest period."""
    begin = NOW.timestamp() - len(values) * period_s
    return [
        Sample.of_value(begin + (place + 0.5) * period_s, value)
        for place, value in enumerate(values)
        if value is not None
    ]


def query(name: str, *, period_s: int = PERIOD_S, stat: str = "Sum", **more: Any) -> dict[str, Any]:
    metric = {"Namespace": "N", "MetricName": name}
    return {
        "Id": name,
        "MetricStat": {"Metric": metric, "Period": period_s, "Stat": stat, **more},
        "ReturnData": False,
    }


def look(
    expression: str, data: dict[str, list[Sample]], *, queries: list[dict[str, Any]] | None = None, **settings: Any
) -> Outcome:
    alarm = {
        "AlarmName": "x",
        "Metrics": [{"Id": "watched", "Expression": expression}, *(queries or [query(name) for name in data])],
        "ComparisonOperator": "GreaterThanThreshold",
        "Threshold": 0.1,
        "EvaluationPeriods": 3,
        **settings,
    }

    def read(metric: Mapping[str, Any], since_s: float) -> Iterator[Sample]:
        return (sample for sample in data[metric["MetricName"]] if sample.timestamp_s >= since_s)

    return evaluate(alarm, read, NOW)


@pytest.mark.parametrize(
    ("errors", "needed", "state"),
    [
        ([5, 5, 5], 3, "ALARM"),
        ([5, 1, 5], 3, "OK"),
        ([5, 1, 5], 2, "ALARM"),
        ([1, 1, 5], 2, "OK"),
        ([5, GAP, 5], 2, "ALARM"),
        ([GAP, GAP, GAP], 1, "OK"),
    ],
)
def test_m_of_n_counts_datapoints_of_the_expression(errors: list[float | None], needed: int, state: str) -> None:
    data = {"errors": published(*errors), "requests": published(20, 20, 20)}
    assert look(SHARE, data, DatapointsToAlarm=needed).state == state


@pytest.mark.parametrize(
    ("treatment", "state"),
    [("missing", "INSUFFICIENT_DATA"), ("breaching", "ALARM"), ("notBreaching", "OK"), ("ignore", "OK")],
)
def test_where_the_expression_has_no_datapoint_the_alarm_treats_it_as_missing(treatment: str, state: str) -> None:
    data = {"errors": published(9, 9, 9), "requests": []}
    outcome = look("errors / requests", data, TreatMissingData=treatment, StateValue="OK")
    assert outcome.state == state, "a division by zero is dropped"


def test_fill_makes_datapoints_of_nothing() -> None:
    data = {"tasks": [], "balancer": published(1)}
    settings: dict[str, Any] = {"ComparisonOperator": "LessThanThreshold", "Threshold": 1.0, "EvaluationPeriods": 2}
    assert look("FILL(tasks, 0) + FILL(balancer, 0)", data, **settings).state == "OK"
    assert look("FILL(tasks, 0) + FILL(tasks, 0)", {"tasks": []}, **settings).state == "ALARM"


def test_each_metric_has_its_own_statistic_and_period() -> None:
    data = {"worst": published(1.0, 9.0), "count": published(*[1.0] * 10)}
    queries = [query("worst", stat="Maximum", period_s=300), query("count", stat="SampleCount")]
    outcome = look("worst + count", data, queries=queries, EvaluationPeriods=1, Threshold=9.5)
    assert outcome.state == "ALARM"
    reason = json.loads(outcome.data)
    assert (reason["recentDatapoints"], reason["period"]) == ([10.0], 300)


def test_dimensions_units_and_statistics_reach_the_reader_as_they_were_written() -> None:
    asked: list[dict[str, Any]] = []

    def read(metric: Mapping[str, Any], since_s: float) -> Iterator[Sample]:
        assert since_s <= NOW.timestamp() - PERIOD_S
        asked.append(dict(metric))
        return iter(())

    metric = {"Namespace": "N", "MetricName": "M", "Dimensions": [{"Name": "Variant", "Value": "a"}]}
    stat = {"Metric": metric, "Period": 60, "Stat": "p99", "Unit": "Microseconds"}
    alarm = {
        "Metrics": [{"Id": "ms", "Expression": "us / 1000"}, {"Id": "us", "MetricStat": stat, "ReturnData": False}],
        "ComparisonOperator": "GreaterThanThreshold",
        "Threshold": 1.0,
        "EvaluationPeriods": 1,
    }
    assert evaluate(alarm, read, NOW).state == "INSUFFICIENT_DATA"
    assert asked == [{**metric, "Unit": "Microseconds"}]


def test_its_reason_has_the_expressions_values_and_no_statistic() -> None:
    data = {"errors": published(4, 5), "requests": published(20, 20)}
    outcome = look(SHARE, data, EvaluationPeriods=2, StateValue="OK")
    assert outcome.reason == (
        "Threshold Crossed: 2 out of the last 2 datapoints [0.25 (01/12/26 03:59:00), 0.2 (01/12/26 03:58:00)] were "
        "greater than the threshold (0.1) (minimum 2 datapoints for OK -> ALARM transition)."
    )
    reason = json.loads(outcome.data)
    assert "statistic" not in reason
    assert all("sampleCount" not in point for point in reason["evaluatedDatapoints"])


@given(
    values=st.lists(st.none() | st.sampled_from([0.0, 1.0, 9.0]), min_size=1, max_size=5),
    treatment=st.sampled_from(["missing", "ignore", "breaching", "notBreaching"]),
    needed=st.integers(1, 3),
    before=st.sampled_from(["OK", "ALARM", "INSUFFICIENT_DATA"]),
)
def test_an_expression_that_is_one_metric_acts_as_an_alarm_on_that_metric(
    values: list[float | None], treatment: str, needed: int, before: str
) -> None:
    settings: dict[str, Any] = {
        "Threshold": 5.0,
        "DatapointsToAlarm": needed,
        "TreatMissingData": treatment,
        "StateValue": before,
        "EvaluationPeriods": 3,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    plain = {"Namespace": "N", "MetricName": "m", "Statistic": "Sum", "Period": PERIOD_S, **settings}
    expected = evaluate(plain, lambda _metric, _since_s: published(*values), NOW)
    assert look("m", {"m": published(*values)}, **settings).state == expected.state
    assert look("m", {"m": published(*values)}, **settings).reason == expected.reason


def stacks_metrics(root: Path) -> list[Any]:
    found = []
    for path in sorted((root / "tests/synth/snapshots").rglob("*.json")):
        resources = json.loads(path.read_text()).get("Resources", {})
        found += [
            pytest.param(resource["Properties"]["Metrics"], id=f"{path.parent.name} {path.stem} {name}")
            for name, resource in sorted(resources.items())
            if resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"]
        ]
    return found


STACKS = stacks_metrics(Path(__file__).parents[3])


def test_the_stacks_have_alarms_on_metric_math() -> None:
    assert len(STACKS) > 5


@pytest.mark.parametrize("metrics", STACKS)
def test_every_expression_of_the_stacks_is_one_that_is_evaluated(metrics: list[dict[str, Any]]) -> None:
    assert check_watched(metrics) in {60, 300}
