"""Expected states: the tables of *Configuring how CloudWatch alarms treat missing data*, CloudWatch user guide."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local import alarms
from local.alarms import Outcome
from local.cloudwatch.samples import Sample
from serving.errors import LocalStackError

NOW = datetime(2026, 12, 1, 4, 0, tzinfo=UTC)
PERIOD = 60
TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")
KEEP = "keep"


def evaluate(settings: dict[str, Any], seen: list[Sample], now: datetime) -> Outcome:
    return alarms.evaluate(settings, lambda _metric, since_s: [one for one in seen if one.timestamp_s >= since_s], now)


def alarm(**settings: Any) -> dict[str, Any]:
    return {
        "AlarmName": "x",
        "ComparisonOperator": "GreaterThanThreshold",
        "Threshold": 5.0,
        "Period": PERIOD,
        "EvaluationPeriods": 3,
        "Statistic": "Average",
        **settings,
    }


def samples(pattern: str) -> list[Sample]:
    """One sample a period, oldest first: 0 within the threshold, X beyond it, - missing."""
    values = {"0": 1.0, "X": 9.0}
    return [
        Sample.of_value(NOW.timestamp() - PERIOD * (len(pattern) - place) + 30, values[mark])
        for place, mark in enumerate(pattern)
        if mark != "-"
    ]


TABLE_3_OF_3 = [
    ("0-X-X", "OK", "OK", "OK", "OK"),
    ("0----", "OK", "OK", "OK", "OK"),
    ("-----", "INSUFFICIENT_DATA", KEEP, "ALARM", "OK"),
    ("0XX-X", "ALARM", "ALARM", "ALARM", "ALARM"),
    ("--X--", "ALARM", KEEP, "ALARM", "OK"),
]
TABLE_2_OF_3 = [
    ("0-X-X", "ALARM", "ALARM", "ALARM", "ALARM"),
    ("00X0X", "ALARM", "ALARM", "ALARM", "ALARM"),
    ("0-X--", "OK", "OK", "ALARM", "OK"),
    ("----0", "OK", "OK", "ALARM", "OK"),
    ("---X-", "ALARM", KEEP, "ALARM", "OK"),
]
CASES = [
    pytest.param(needed, pattern, treatment, expected, id=f"{needed} of 3 {pattern} {treatment}")
    for needed, table in ((3, TABLE_3_OF_3), (2, TABLE_2_OF_3))
    for pattern, *states in table
    for treatment, expected in zip(TREATMENTS, states, strict=True)
]


@pytest.mark.parametrize("before", ["OK", "ALARM", "INSUFFICIENT_DATA"])
@pytest.mark.parametrize(("needed", "pattern", "treatment", "expected"), CASES)
def test_the_guides_tables_hold(needed: int, pattern: str, treatment: str, expected: str, before: str) -> None:
    settings = alarm(DatapointsToAlarm=needed, TreatMissingData=treatment, StateValue=before)
    assert evaluate(settings, samples(pattern), NOW).state == (before if expected == KEEP else expected)


@pytest.mark.parametrize("pattern", ["----X", "---X-"])
@pytest.mark.parametrize("treatment", ["missing", "ignore"])
def test_a_first_breaching_datapoint_alone_is_too_early_for_an_alarm(pattern: str, treatment: str) -> None:
    settings = alarm(DatapointsToAlarm=3, TreatMissingData=treatment, StateValue="OK")
    assert evaluate(settings, samples(pattern), NOW).state == "OK"


def test_missing_is_the_default_treatment_and_all_periods_the_default_need() -> None:
    assert evaluate(alarm(StateValue="ALARM"), [], NOW).state == "INSUFFICIENT_DATA"
    assert evaluate(alarm(), samples("0XX"), NOW).state == "OK"


@given(
    pattern=st.text(alphabet="0X-", min_size=5, max_size=5),
    treatment=st.sampled_from(TREATMENTS),
    before=st.sampled_from(["OK", "ALARM", "INSUFFICIENT_DATA"]),
    needed=st.integers(1, 3),
)
def test_with_three_real_datapoints_the_treatment_does_not_matter(
    pattern: str, treatment: str, before: str, needed: int
) -> None:
    real = pattern.replace("-", "")
    settings = alarm(DatapointsToAlarm=needed, TreatMissingData=treatment, StateValue=before)
    state = evaluate(settings, samples(pattern), NOW).state
    if len(real) >= 3:
        assert state == ("ALARM" if real[-3:].count("X") >= needed else "OK")
    if treatment == "notBreaching" and "X" not in pattern:
        assert state == "OK"
    if "X" not in pattern and treatment != "breaching" and before != "ALARM":
        assert state != "ALARM"


@given(pattern=st.text(alphabet="0X-", min_size=5, max_size=5), needed=st.integers(1, 3))
def test_older_samples_than_the_evaluation_range_change_nothing(pattern: str, needed: int) -> None:
    settings = alarm(DatapointsToAlarm=needed, StateValue="OK")
    old = [Sample.of_value(NOW.timestamp() - 5 * PERIOD - 1, 9.0)]
    recent = samples(pattern)
    assert evaluate(settings, [*recent, *old], NOW) == evaluate(settings, recent, NOW)


@pytest.mark.parametrize(
    ("comparison", "breaching"),
    [
        ("GreaterThanThreshold", {"above"}),
        ("GreaterThanOrEqualToThreshold", {"above", "equal"}),
        ("LessThanThreshold", {"below"}),
        ("LessThanOrEqualToThreshold", {"below", "equal"}),
    ],
)
def test_each_operator_compares_as_it_says(comparison: str, breaching: set[str]) -> None:
    settings = alarm(ComparisonOperator=comparison, EvaluationPeriods=1)
    for name, value in {"above": 5.1, "equal": 5.0, "below": 4.9}.items():
        state = evaluate(settings, [Sample.of_value(NOW.timestamp(), value)], NOW).state
        assert state == ("ALARM" if name in breaching else "OK")


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [("Average", 4.0), ("Sum", 16.0), ("Minimum", 1.0), ("Maximum", 9.0), ("SampleCount", 4.0)],
)
def test_a_statistic_counts_each_value_as_often_as_it_was_seen(statistic: str, expected: float) -> None:
    at = NOW.timestamp() - 1
    seen = [Sample.of_value(at, 1.0), Sample.of_value(at, 3.0, count=2), Sample.of_value(at, 9.0)]
    settings = alarm(Statistic=statistic, EvaluationPeriods=1, ComparisonOperator="GreaterThanOrEqualToThreshold")
    assert evaluate(settings | {"Threshold": expected}, seen, NOW).state == "ALARM"
    assert evaluate(settings | {"Threshold": expected + 0.001}, seen, NOW).state == "OK"


def percentile_alarm(**settings: Any) -> dict[str, Any]:
    return alarm(EvaluationPeriods=1, ExtendedStatistic="p99", Statistic=None, **settings)


def test_p99_sees_the_second_worst_of_a_hundred_not_the_worst() -> None:
    at = NOW.timestamp() - 1
    good, bad = Sample.of_value(at, 1.0, count=99), Sample.of_value(at, 100.0)
    assert evaluate(percentile_alarm(), [good, bad], NOW).state == "OK"
    assert evaluate(percentile_alarm(), [good, bad, bad], NOW).state == "ALARM"


def test_a_statistic_set_has_no_percentile() -> None:
    hidden = Sample(timestamp_s=NOW.timestamp(), count=100, total=900, least=1, most=90)
    assert evaluate(percentile_alarm(), [hidden], NOW).state == "INSUFFICIENT_DATA"


@pytest.mark.parametrize(("count", "expected"), [(999, "OK"), (1000, "ALARM")])
def test_an_alarm_may_ignore_a_percentile_of_too_few_samples(count: int, expected: str) -> None:
    settings = percentile_alarm(
        EvaluateLowSampleCountPercentile="ignore", StateValue="OK", TreatMissingData="notBreaching"
    )
    seen = [Sample.of_value(NOW.timestamp(), 100.0, count=count)]
    assert evaluate(settings, seen, NOW).state == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ComparisonOperator": "GreaterThanUpperThreshold"}, "GreaterThanUpperThreshold"),
        ({"Metrics": [{"Id": "m", "Expression": "SEARCH('x', 'Sum')"}]}, "SEARCH"),
        ({"Statistic": "tm99"}, "tm99"),
        ({"Statistic": "pest"}, "pest"),
    ],
)
def test_what_the_evaluator_lacks_is_said_by_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(LocalStackError, match=said):
        evaluate(alarm(**change), [], NOW)


def test_the_reason_names_values_threshold_and_transition() -> None:
    settings = alarm(DatapointsToAlarm=2, StateValue="OK")
    outcome = evaluate(settings, samples("0XX"), NOW)
    assert outcome.reason == (
        "Threshold Crossed: 2 out of the last 3 datapoints [9.0 (01/12/26 03:59:00), 9.0 (01/12/26 03:58:00)] were "
        "greater than the threshold (5.0) (minimum 2 datapoints for OK -> ALARM transition)."
    )
    assert '"recentDatapoints":[1.0,9.0,9.0]' in outcome.data


def test_the_reason_says_what_missing_data_were_taken_for() -> None:
    outcome = evaluate(alarm(TreatMissingData="breaching", StateValue="OK"), [], NOW)
    assert outcome.reason == (
        "Threshold Crossed: no datapoints were received for 3 periods and 3 missing datapoints were treated as "
        "[Breaching]."
    )
