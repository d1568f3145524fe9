"""PutMetricAlarm's own rules: what CloudWatch refuses, and what is not evaluated here, by name.

Sources: CloudWatch API reference, PutMetricAlarm and MetricDataQuery; the wording of AWS where users have quoted it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from local.cloudwatch.math_values import Series
from local.cloudwatch.queries import Metric, Queries
from local.cloudwatch.samples import Statistic
from serving.errors import LocalStackError

_OF_ONE_METRIC: Final = ("MetricName", "Namespace", "Dimensions", "Period", "Unit", "Statistic", "ExtendedStatistic")
_COMPARISONS: Final = (
    "GreaterThanOrEqualToThreshold",
    "GreaterThanThreshold",
    "LessThanThreshold",
    "LessThanOrEqualToThreshold",
)
_BANDS: Final = ("GreaterThanUpperThreshold", "LessThanLowerThreshold", "LessThanLowerOrGreaterThanUpperThreshold")
_TREATMENTS: Final = ("breaching", "notBreaching", "ignore", "missing")
_ACTIONS: Final = ("AlarmActions", "OKActions", "InsufficientDataActions")
_ACTED: Final = (":sns:", ":autoscaling:")
"""Whose actions are taken here; functions, instances and incidents hear nothing."""
_MOST_METRICS = _MOST_EXPRESSIONS = 10
_HIGH_RESOLUTION_S: Final = (10, 20, 30)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_WEEK_S = 7 * _DAY_S


class RequestError(LocalStackError):
    """A request that CloudWatch answers with ValidationError, or with the error of `code`."""

    code: ClassVar = "ValidationError"


def check_metric_alarm(request: Mapping[str, Any]) -> None:
    """Refuse a PutMetricAlarm that CloudWatch refuses, or that could not be evaluated here.

    Args:
        request: its parameters, as boto3 takes them.

    Raises:
        RequestError: with all that is wrong.

    """
    problems = list(_problems(request))
    if problems:
        raise RequestError(" ".join(problems))


def check_watched(metrics: Sequence[Mapping[str, Any]]) -> float:
    """Give the period in seconds of the time series that an alarm on these Metrics watches.

    Raises:
        LocalStackError: they are not what CloudWatch takes, or are not evaluated here.

    """
    queries = Queries.of(metrics)
    period_s, watched = queries.period_s, queries.watched
    result = queries.evaluate(lambda metric: Series(metric.period_s, (), {}), lambda _: ())[watched.id]
    if not isinstance(result, Series):
        raise RequestError(f"Error in expression '{watched.id}': got several time series; allowed: one in an alarm.")
    count = sum(isinstance(query.source, Metric) for query in queries.ordered)
    if count > _MOST_METRICS or len(queries.ordered) - count > _MOST_EXPRESSIONS:
        raise RequestError(f"Metrics: got {len(queries.ordered)}; allowed: 10 metrics and 10 expressions.")
    return period_s


def check_composite_alarm(request: Mapping[str, Any]) -> None:
    """Refuse a PutCompositeAlarm that would act otherwise than on AWS.

    Raises:
        RequestError: it suppresses actions, or has some that nobody would take.

    """
    problems = list(_actions(request))
    if request.get("ActionsSuppressor"):
        problems.append("ActionsSuppressor: suppressed actions are not in the local stack.")
    if problems:
        raise RequestError(" ".join(problems))


def _problems(request: Mapping[str, Any]) -> Iterator[str]:
    comparison = request.get("ComparisonOperator")
    if comparison in _BANDS or request.get("ThresholdMetricId"):
        yield "Anomaly detection (ThresholdMetricId and its comparisons) is not in the local stack."
        return
    if comparison not in _COMPARISONS:
        yield f"ComparisonOperator: got {comparison}; allowed: {', '.join(_COMPARISONS)}."
    if request.get("Threshold") is None:
        yield "Threshold must not be null."
    if (request.get("TreatMissingData") or "missing") not in _TREATMENTS:
        yield f"TreatMissingData: got {request['TreatMissingData']}; allowed: {', '.join(_TREATMENTS)}."
    yield from _period_counts(request)
    yield from _actions(request)
    yield from _several_metrics(request) if request.get("Metrics") else _one_metric(request)


def _actions(request: Mapping[str, Any]) -> Iterator[str]:
    for name in _ACTIONS:
        for action in request.get(name) or ():
            if not any(service in action for service in _ACTED):
                yield f"{name}: got {action}; allowed in the local stack: a topic of SNS, a scaling policy."


def _period_counts(request: Mapping[str, Any]) -> Iterator[str]:
    count = request.get("EvaluationPeriods")
    if count is None or count < 1:
        yield f"EvaluationPeriods: got {count}; allowed: 1 or more."
    elif (request.get("DatapointsToAlarm") or 0) > count:
        yield "DatapointsToAlarm must be less than or equal to EvaluationPeriods."


def _one_metric(request: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{name} must not be null." for name in ("MetricName", "Namespace", "Period") if not request.get(name))
    named = [name for name in ("Statistic", "ExtendedStatistic") if request.get(name)]
    if len(named) != 1:
        yield f"Exactly one of Statistic and ExtendedStatistic must be given: got {' and '.join(named) or 'none'}."
    else:
        try:
            Statistic.named(str(request[named[0]]))
        except LocalStackError as error:
            yield f"{error}."
    if request.get("Period"):
        yield from _span(float(request["Period"]), request)


def _several_metrics(request: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{name} should not be set if list of Metrics is set." for name in _OF_ONE_METRIC if request.get(name))
    try:
        yield from _span(check_watched(request["Metrics"]), request)
    except LocalStackError as error:
        yield str(error)


def _span(period_s: float, request: Mapping[str, Any]) -> Iterator[str]:
    if period_s not in _HIGH_RESOLUTION_S and (period_s <= 0 or period_s % _MINUTE_S):
        yield f"Period: got {period_s:g}; allowed: 10, 20, 30 or a multiple of 60."
    most = _WEEK_S if period_s >= _HOUR_S else _DAY_S
    if period_s * (request.get("EvaluationPeriods") or 1) > most:
        yield f"EvaluationPeriods * Period must be <= {most}."
