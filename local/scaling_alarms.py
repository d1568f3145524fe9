"""The two alarms that a target tracking policy makes for itself, and the queries of what it tracks; pure.

Sources: Application Auto Scaling guide, *How target tracking works*; what DescribeAlarms answers of such alarms on AWS
(names, descriptions, three and fifteen periods, the lower one at 90 % of the target). Their statistic for concurrency
is not documented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from local.aws_json import Json

COMPONENT: Final = "inference-component/"
HIGH, LOW = "AlarmHigh", "AlarmLow"
OUT_PERIODS, IN_PERIODS = 3, 15
IN_SHARE = 0.9
_PERIOD_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A metric of AWS/SageMaker behind a predefined one."""

    name: str
    statistic: str
    period_s: int


_PREDEFINED: Final[Mapping[str, Measure]] = {
    "SageMakerVariantInvocationsPerInstance": Measure(name="InvocationsPerInstance", statistic="Sum", period_s=60),
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": Measure(
        name="ConcurrentRequestsPerModel", statistic="Average", period_s=10
    ),
    "SageMakerInferenceComponentInvocationsPerCopy": Measure(name="InvocationsPerCopy", statistic="Sum", period_s=60),
    "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": Measure(
        name="ConcurrentRequestsPerCopy", statistic="Average", period_s=10
    ),
}


def predefined() -> Sequence[str]:
    """Give the predefined metrics that are published here."""
    return tuple(_PREDEFINED)


def tracked_queries(resource: str, config: Json) -> list[Json]:
    """Give the MetricDataQueries of what a policy tracks; one of them returns data.

    Args:
        resource: the ResourceId of the scalable target.
        config: its TargetTrackingScalingPolicyConfiguration, whose predefined metric, if any, is one of `predefined`.

    """
    custom = config.get("CustomizedMetricSpecification")
    if custom is None:
        measure = _PREDEFINED[config["PredefinedMetricSpecification"]["PredefinedMetricType"]]
        metric = {
            "Namespace": "AWS/SageMaker",
            "MetricName": measure.name,
            "Dimensions": _dimensions(resource),
        }
        return [_one({"Metric": metric, "Period": measure.period_s, "Stat": measure.statistic})]
    if custom.get("Metrics"):
        # a query of Application Auto Scaling has no period of its own: a minute
        return [_with_period(query) for query in custom["Metrics"]]
    metric = {name: custom[name] for name in ("Namespace", "MetricName", "Dimensions") if name in custom}
    unit = {"Unit": custom["Unit"]} if "Unit" in custom else {}
    return [_one({"Metric": metric, "Period": _PERIOD_S, "Stat": custom["Statistic"], **unit})]


def tracking_alarms(policy: Json, *, action: str, names: Mapping[str, str]) -> list[Json]:
    """Give the PutMetricAlarm of both alarms of a target tracking policy.

    Args:
        policy: as DescribeScalingPolicies answers it.
        action: what the alarms call: the policy's ARN and who made it.
        names: of the alarms, by HIGH and LOW.

    """
    config = policy["TargetTrackingScalingPolicyConfiguration"]
    target = float(config["TargetValue"])
    watched = _watched(tracked_queries(policy["ResourceId"], config))
    common = {
        **watched,
        "AlarmDescription": f"DO NOT EDIT OR DELETE. For TargetTrackingScaling policy {action}.",
        "AlarmActions": [action],
        "TreatMissingData": "missing",
    }
    return [
        {
            **common,
            "AlarmName": names[HIGH],
            "ComparisonOperator": "GreaterThanThreshold",
            "EvaluationPeriods": OUT_PERIODS,
            "Threshold": target,
        },
        {
            **common,
            "AlarmName": names[LOW],
            "ComparisonOperator": "LessThanThreshold",
            "EvaluationPeriods": IN_PERIODS,
            "Threshold": IN_SHARE * target,
        },
    ]


def alarm_queries(alarm: Mapping[str, Any]) -> list[Json]:
    """Give the MetricDataQueries of what an alarm watches."""
    if alarm.get("Metrics"):
        return [dict(query) for query in alarm["Metrics"]]
    metric = {name: alarm[name] for name in ("Namespace", "MetricName", "Dimensions") if alarm.get(name)}
    stat = {
        "Metric": metric,
        "Period": alarm["Period"],
        "Stat": alarm.get("ExtendedStatistic") or alarm["Statistic"],
        **({"Unit": alarm["Unit"]} if alarm.get("Unit") else {}),
    }
    return [_one(stat)]


def calls(alarm: Mapping[str, Any], policy_arn: str) -> bool:
    """Say whether an alarm's actions name a policy, by its ARN alone or with who made it."""
    actions = alarm.get("AlarmActions") or ()
    return any(action == policy_arn or action.startswith(f"{policy_arn}:createdBy/") for action in actions)


def _one(stat: Json) -> Json:
    return {"Id": "m1", "MetricStat": stat, "ReturnData": True}


def _with_period(query: Json) -> Json:
    if "MetricStat" not in query:
        return dict(query)
    return {**query, "MetricStat": {"Period": _PERIOD_S, **query["MetricStat"]}}


def _watched(queries: list[Json]) -> Json:
    """Give the part of PutMetricAlarm that says what it watches: one metric plainly, as AWS does."""
    if len(queries) > 1 or "MetricStat" not in queries[0]:
        return {"Metrics": queries}
    stat = queries[0]["MetricStat"]
    unit = {"Unit": stat["Unit"]} if "Unit" in stat else {}
    return {**stat["Metric"], "Period": stat["Period"], "Statistic": stat["Stat"], **unit}


def _dimensions(resource: str) -> list[Json]:
    if resource.startswith(COMPONENT):
        return [{"Name": "InferenceComponentName", "Value": resource.removeprefix(COMPONENT)}]
    _, endpoint, _, variant = resource.split("/")
    return [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": variant}]
