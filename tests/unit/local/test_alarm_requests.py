"""What PutMetricAlarm refuses; the quoted texts are AWS's own, as users have seen them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.model import Shape
from botocore.serialize import create_serializer
from hypothesis import given
from hypothesis import strategies as st

from local.aws_json import service_model
from local.cloudwatch.alarm_requests import RequestError, check_composite_alarm, check_metric_alarm
from local.cloudwatch.query_protocol import structured


def metric(name: str, **more: Any) -> dict[str, Any]:
    stat = {"Metric": {"Namespace": "N", "MetricName": name}, "Period": 60, "Stat": "Sum"}
    return {"Id": name, "MetricStat": stat | more, "ReturnData": False}


def on_metric(**changes: Any) -> dict[str, Any]:
    request = {
        "AlarmName": "a",
        "Namespace": "N",
        "MetricName": "M",
        "Statistic": "Sum",
        "Period": 60,
        "EvaluationPeriods": 3,
        "Threshold": 0.0,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    return request | changes


def on_math(expression: str = "errors / requests", **changes: Any) -> dict[str, Any]:
    request = {
        "AlarmName": "a",
        "EvaluationPeriods": 3,
        "Threshold": 0.5,
        "ComparisonOperator": "GreaterThanThreshold",
        "Metrics": [{"Id": "share", "Expression": expression}, metric("errors"), metric("requests")],
    }
    return request | changes


@pytest.mark.parametrize(
    "request_",
    [
        on_metric(),
        on_metric(Statistic=None, ExtendedStatistic="p99.9"),
        on_metric(Period=10),
        on_metric(Period=3600, EvaluationPeriods=168),
        on_math(),
        on_math(Metrics=[metric("m") | {"ReturnData": True}]),
        on_math("SUM(METRICS())", Metrics=[{"Id": "e", "Expression": "TIME_SERIES(1)", "Period": 300}]),
    ],
    ids=[
        "metric",
        "percentile",
        "high resolution",
        "a week",
        "math",
        "one metric as a query",
        "no metric but a period",
    ],
)
def test_what_cloudwatch_takes_is_taken(request_: dict[str, Any]) -> None:
    check_metric_alarm(request_)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (on_math("NOSUCH(errors)"), "Error in expression 'share': Function 'NOSUCH' not found"),
        (on_math("errors +"), "Error in expression 'share': Invalid syntax"),
        (on_math("SEARCH('x', 'Sum')"), "Error in expression 'share': Function 'SEARCH' is not in the local stack"),
        (on_math("ANOMALY_DETECTION_BAND(errors)"), "'ANOMALY_DETECTION_BAND' is not in the local stack"),
        (on_math("SELECT AVG(x) FROM y"), "Metrics Insights"),
        (on_math("[errors, requests]"), "several time series"),
        (on_math("SUM(errors)"), "got a number"),
        (on_math("others"), "others"),
        (on_math("share + errors"), "depends on itself"),
        (on_math(Metrics=[metric("errors")]), "Exactly one element of the metrics list should return data."),
        (
            on_math(Metrics=[metric("a") | {"ReturnData": True}, {"Id": "e", "Expression": "a"}]),
            "Exactly one element of the metrics list should return data.",
        ),
        (on_math(Metrics=[metric("a"), metric("a")]), "must be unique"),
        (on_math(Metrics=[{"Id": "Big", "Expression": "a"}]), "Id: got Big"),
        (on_math(Metrics=[metric("a") | {"Expression": "a"}]), "one of Expression and MetricStat"),
        (on_math(Metrics=[{"Id": "a"}]), "one of Expression and MetricStat"),
        (on_math(Metrics=[{"Id": "e", "Expression": "TIME_SERIES(1)"}]), "Period must not be null"),
        (on_math(Metrics=[metric("m", Stat="tm99") | {"ReturnData": True}]), "tm99"),
        (
            on_math("m0", Metrics=[{"Id": "e", "Expression": "m0"}, *(metric(f"m{index}") for index in range(11))]),
            "10 metrics",
        ),
        (on_math(Statistic="Sum"), "Statistic should not be set if list of Metrics is set."),
        (on_metric(MetricName=None), "MetricName must not be null."),
        (on_metric(Statistic=None), "Statistic and ExtendedStatistic"),
        (on_metric(ExtendedStatistic="p99"), "Statistic and ExtendedStatistic"),
        (on_metric(Statistic="Median"), "Median"),
        (on_metric(Period=90), "multiple of 60"),
        (on_metric(Period=60, EvaluationPeriods=1441), "<= 86400"),
        (on_metric(EvaluationPeriods=0), "EvaluationPeriods"),
        (on_metric(DatapointsToAlarm=4), "DatapointsToAlarm must be less than or equal to EvaluationPeriods"),
        (on_metric(Threshold=None), "Threshold must not be null"),
        (on_metric(ComparisonOperator="Bigger"), "Bigger"),
        (on_metric(TreatMissingData="whatever"), "whatever"),
        (on_metric(ThresholdMetricId="band"), "Anomaly detection"),
        (on_metric(ComparisonOperator="GreaterThanUpperThreshold"), "Anomaly detection"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_it_refuses_is_refused_by_name(request_: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_metric_alarm(request_)
    assert said in str(caught.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(RequestError) as caught:
        check_metric_alarm(on_metric(Threshold=None, Period=7, EvaluationPeriods=0))
    assert all(word in str(caught.value) for word in ("Threshold", "Period", "EvaluationPeriods"))


@pytest.mark.parametrize("name", ["AlarmActions", "OKActions", "InsufficientDataActions"])
def test_an_action_that_nobody_would_take_is_refused_by_name(name: str) -> None:
    topic = "arn:aws:sns:us-east-1:123456789012:t"
    policy = "arn:aws:autoscaling:us-east-1:123456789012:scalingPolicy:1:resource/sagemaker/e:policyName/p"
    check_metric_alarm(on_metric(**{name: [topic, policy]}))
    check_composite_alarm({"AlarmName": "c", "AlarmRule": "ALARM(a)", name: [topic]})
    for action in ("arn:aws:lambda:us-east-1:123456789012:function:f", "arn:aws:automate:us-east-1:ec2:reboot"):
        for check, request in ((check_metric_alarm, on_metric()), (check_composite_alarm, {"AlarmName": "c"})):
            with pytest.raises(RequestError, match=f"{name}: got {action}"):
                check({**request, name: [topic, action]})


def test_suppressed_actions_are_refused_by_name() -> None:
    check_composite_alarm({"AlarmName": "a", "AlarmRule": "ALARM(b)"})
    with pytest.raises(RequestError, match="ActionsSuppressor"):
        check_composite_alarm({"AlarmName": "a", "AlarmRule": "ALARM(b)", "ActionsSuppressor": "c"})


def shape_of(operation: str) -> Shape:
    shape = service_model("cloudwatch").operation_model(operation).input_shape
    assert shape is not None
    return shape


def test_flat_parameters_are_the_structure_that_they_flatten() -> None:
    flat = {
        "AlarmName": "a",
        "ActionsEnabled": "true",
        "Threshold": "0.5",
        "EvaluationPeriods": "3",
        "AlarmActions.member.1": "arn:1",
        "AlarmActions.member.2": "arn:2",
        "Metrics.member.2.Id": "e",
        "Metrics.member.2.Expression": "m * 2",
        "Metrics.member.1.Id": "m",
        "Metrics.member.1.ReturnData": "false",
        "Metrics.member.1.MetricStat.Period": "60",
        "Metrics.member.1.MetricStat.Stat": "Sum",
        "Metrics.member.1.MetricStat.Metric.MetricName": "M",
        "Metrics.member.1.MetricStat.Metric.Dimensions.member.1.Name": "n",
        "Metrics.member.1.MetricStat.Metric.Dimensions.member.1.Value": "v",
        "Action": "PutMetricAlarm",
    }
    assert structured(flat, shape_of("PutMetricAlarm")) == {
        "AlarmName": "a",
        "ActionsEnabled": True,
        "Threshold": 0.5,
        "EvaluationPeriods": 3,
        "AlarmActions": ["arn:1", "arn:2"],
        "Metrics": [
            {
                "Id": "m",
                "ReturnData": False,
                "MetricStat": {
                    "Period": 60,
                    "Stat": "Sum",
                    "Metric": {"MetricName": "M", "Dimensions": [{"Name": "n", "Value": "v"}]},
                },
            },
            {"Id": "e", "Expression": "m * 2"},
        ],
    }
    assert structured({}, shape_of("PutMetricAlarm")) == {}


class ReadOnce(dict[str, str]):
    """Parameters that may be gone through a single time: whoever searches them for each list does it again."""

    def items(self) -> Any:
        assert not self.__dict__.setdefault("read", [])
        self.__dict__["read"].append(True)
        return super().items()

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("gone through again")


@given(
    queries=st.lists(
        st.fixed_dictionaries(
            {"Id": st.text("abc1", min_size=1, max_size=4)},
            optional={
                "Expression": st.text(max_size=5),
                "ReturnData": st.booleans(),
                "MetricStat": st.fixed_dictionaries(
                    {
                        "Metric": st.fixed_dictionaries(
                            {},
                            optional={
                                "MetricName": st.text(max_size=3),
                                "Dimensions": st.lists(
                                    st.fixed_dictionaries({"Name": st.text(max_size=3), "Value": st.text(max_size=3)}),
                                    min_size=1,
                                    max_size=3,
                                ),
                            },
                        ).filter(bool),
                        "Period": st.integers(1, 86_400),
                        "Stat": st.text(max_size=3),
                    }
                ),
            },
        ),
        min_size=1,
        max_size=12,
    )
)
def test_what_botocore_flattens_is_put_together_again_in_one_go(queries: list[dict[str, Any]]) -> None:
    model = service_model("cloudwatch").operation_model("GetMetricData")
    flatten = create_serializer("query", include_validation=False)
    body = flatten.serialize_to_request({"MetricDataQueries": queries}, model)["body"]
    assert structured(ReadOnce(body), model.input_shape) == {"MetricDataQueries": queries}
