"""GetMetricData: periods, order and labels of its API reference; values counted by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.cloudwatch.alarm_requests import RequestError
from local.cloudwatch.math_values import MathError
from local.cloudwatch.metric_data import Result, metric_data, metric_statistics
from local.cloudwatch.samples import Sample, Statistic

BEGIN = 1_800_000_000.0  # a whole hour
PUBLISHED = {
    "Errors": [Sample.of_value(BEGIN + 5, 2.0), Sample.of_value(BEGIN + 130, 4.0)],
    "Requests": [Sample.of_value(BEGIN + at, 10.0, count=2) for at in (0, 59.9, 60, 125)],
}


def read(metric: Mapping[str, Any], since_s: float) -> Iterator[Sample]:
    return (sample for sample in PUBLISHED.get(metric["MetricName"], ()) if sample.timestamp_s >= since_s)


def query(name: str, *, metric: str = "", stat: str = "Sum", period: int = 60, **more: Any) -> dict[str, Any]:
    key = {"Namespace": "N", "MetricName": metric}
    source = {"MetricStat": {"Metric": key, "Period": period, "Stat": stat}} if metric else {}
    return {"Id": name, **source, **more}


def asked(*queries: dict[str, Any], start: float = 0, end: float = 180, ascending: bool = True) -> list[Result]:
    return metric_data(queries, read, start_s=BEGIN + start, end_s=BEGIN + end, ascending=ascending)


def test_each_period_has_its_statistic_and_the_newest_comes_first_unless_asked_otherwise() -> None:
    [found] = asked(query("requests", metric="Requests"))
    assert (found.id, found.label) == ("requests", "Requests")
    assert (found.timestamps, found.values) == ([BEGIN, BEGIN + 60, BEGIN + 120], [40.0, 20.0, 20.0])
    [newest_first] = asked(query("requests", metric="Requests"), ascending=False)
    assert newest_first.timestamps == [BEGIN + 120, BEGIN + 60, BEGIN]


def test_expressions_are_computed_and_only_what_returns_data_is_answered_in_the_order_asked() -> None:
    found = asked(
        query("share", Expression="errors / requests", Label="share of errors"),
        query("errors", metric="Errors", ReturnData=False),
        query("requests", metric="Requests"),
    )
    assert [(result.id, result.label) for result in found] == [("share", "share of errors"), ("requests", "Requests")]
    assert found[0].values == [0.05, 0.0, 0.2], "a value that one of the two lacks counts as 0"


def test_an_array_is_as_many_results_of_one_id_and_an_empty_metric_is_a_result_too() -> None:
    queries = [query("errors", metric="Errors", ReturnData=False), query("none", metric="Nothing", ReturnData=False)]
    found = asked(*queries, query("all", Expression="METRICS() * 2"))
    assert [(result.id, list(result.values)) for result in found] == [("all", [4.0, 8.0]), ("all", [])]


def test_expressions_may_name_expressions_that_come_later() -> None:
    [found] = asked(
        query("twice", Expression="once * 2"),
        query("once", Expression="errors + 1", ReturnData=False),
        query("errors", metric="Errors", ReturnData=False),
    )
    assert found.values == [6.0, 10.0]


@pytest.mark.parametrize("first", [["Errors", "Requests"], ["Requests", "Errors"]])
def test_metrics_are_in_the_order_of_the_request_whatever_expression_names_them_before(first: list[str]) -> None:
    metrics = [query(name.lower(), metric=name, ReturnData=False) for name in first]
    swapped = query("sum", Expression=f"{first[1].lower()} + {first[0].lower()}", ReturnData=False)
    [found] = asked(swapped, query("first", Expression="FIRST(METRICS())"), *metrics)
    [alone] = asked(query("m", metric=first[0]))
    assert found.values == alone.values


def test_queries_that_name_each_other_in_a_long_row_are_evaluated_and_a_ring_of_them_is_refused() -> None:
    row = [query(f"e{place}", Expression=f"e{place + 1} + 0", ReturnData=place == 0) for place in range(498)]
    [found] = asked(*row, query("e498", metric="Requests", ReturnData=False))
    [alone] = asked(query("m", metric="Requests"))
    assert found.values == alone.values
    with pytest.raises(MathError, match="depends on itself"):
        asked(*row, query("e498", Expression="e0"))


def test_the_end_is_excluded_and_the_start_lies_in_the_first_period() -> None:
    [found] = asked(query("requests", metric="Requests"), start=30, end=125)
    assert (found.timestamps, found.values) == ([BEGIN, BEGIN + 60], [40.0, 20.0])


def test_metrics_with_periods_of_their_own_keep_them() -> None:
    fine, coarse = asked(query("fine", metric="Requests"), query("coarse", metric="Requests", period=120))
    assert len(fine.values) == 3
    assert coarse.values == [60.0, 20.0]


@pytest.mark.parametrize(
    ("queries", "start", "error", "said"),
    [
        ([query("m", metric="Errors")], 180, RequestError, "StartTime must be less than"),
        ([], 0, RequestError, "1 to 500"),
        ([query("e", Expression="NOSUCH(1)")], 0, MathError, "not found"),
        ([query("e", Expression="1 + 1")], 0, MathError, "got a number"),
        ([query("m", metric="Errors", period=0)], 0, MathError, "Period: got 0"),
    ],
    ids=["no range", "no query", "unknown function", "a scalar", "no period"],
)
def test_a_wrong_request_is_refused(
    queries: list[dict[str, Any]], start: float, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        asked(*queries, start=start)


def test_a_range_since_ever_is_answered_as_far_back_as_metrics_are_kept() -> None:
    [found] = metric_data([query("m", metric="Errors", period=3600)], read, start_s=0.0, end_s=BEGIN + 180)
    assert found.values == [6.0]


def test_statistics_are_by_period_and_a_percentile_that_does_not_exist_is_left_out() -> None:
    request = {"MetricName": "Errors", "Period": 60, "Statistics": ["Sum", "Maximum"], "ExtendedStatistics": ["p50"]}
    found = metric_statistics(request, read, start_s=BEGIN, end_s=BEGIN + 180)
    assert found == [
        {"Timestamp": BEGIN, "Sum": 2.0, "Maximum": 2.0, "ExtendedStatistics": {"p50": 2.0}},
        {"Timestamp": BEGIN + 120, "Sum": 4.0, "Maximum": 4.0, "ExtendedStatistics": {"p50": 4.0}},
    ]

    def hidden(_metric: Mapping[str, Any], _since_s: float) -> Iterator[Sample]:
        return iter([Sample(timestamp_s=BEGIN, count=2, total=3, least=1, most=2)])

    assert metric_statistics(request, hidden, start_s=BEGIN, end_s=BEGIN + 60) == [
        {"Timestamp": BEGIN, "Sum": 3.0, "Maximum": 2.0}
    ]


@pytest.mark.parametrize(
    "wanted", [{}, {"Statistics": []}, {"ExtendedStatistics": ["tm99"]}], ids=["no", "an empty", "tm"]
)
def test_statistics_must_be_asked_for_by_names_that_are_known(wanted: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        metric_statistics({"MetricName": "Errors", "Period": 60, **wanted}, read, start_s=BEGIN, end_s=BEGIN + 60)


@pytest.mark.parametrize("period_s", [1, 5, 10, 20, 30, 60, 300])
def test_more_than_1440_datapoints_of_one_metric_are_refused_as_cloudwatch_does(period_s: int) -> None:
    """API reference, GetMetricStatistics; the periods are those that it names."""
    request = {"MetricName": "Errors", "Period": period_s, "Statistics": ["Sum"]}
    end = BEGIN + 300
    assert metric_statistics(request, read, start_s=end - 1440 * period_s, end_s=end)
    with pytest.raises(RequestError, match=r"1,441 datapoints, which exceeds the limit of 1,440") as refused:
        metric_statistics(request, read, start_s=end - 1440 * period_s - 1, end_s=end)
    assert refused.value.code == "InvalidParameterCombination"
    with pytest.raises(RequestError, match="multiple of 60"):
        metric_statistics(request | {"Period": 7}, read, start_s=BEGIN, end_s=end)


@given(
    values=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 4)), min_size=1, max_size=30),
    share=st.sampled_from([0, 1, 25, 50, 90, 99, 99.9, 100]),
)
def test_a_percentile_is_the_least_value_that_its_share_does_not_exceed(
    values: list[tuple[int, int]], share: float
) -> None:
    samples = [Sample.of_value(0.0, float(value), count=count) for value, count in values]
    seen = np.repeat([value for value, _ in values], [count for _, count in values])
    expected = np.quantile(seen, share / 100, method="inverted_cdf")
    assert Statistic.named(f"p{share}").of(samples) == expected


def test_negative_values_have_no_percentile() -> None:
    assert Statistic.named("p50").of([Sample.of_value(0.0, -1.0), Sample.of_value(0.0, 1.0)]) is None
