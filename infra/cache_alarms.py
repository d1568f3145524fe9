"""Alarms of the feature cache, `<cache>-<what>`; metrics of a serverless cache and of nodes have little in common.

Names, units and dimensions are those of the ElastiCache guide (*serverless-metrics-events-redis*, *CacheMetrics*).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

_NAMESPACE = "AWS/ElastiCache"
_PERIOD = Duration.minutes(1)
_PERIOD_S = 60
_BYTES_PER_GB = 1024**3
_NEARLY_FULL = 0.8
# ElastiCache takes 65,000 connections a node and a serverless cache no fewer (guide, *Quotas*, maxclients)
_MANY_CONNECTIONS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a serverless cache may hold and compute."""

    data_gb: int
    ecpu_per_second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    what: str
    metric: str
    statistic: str
    above: float
    said: str


_BOTH = (
    _Watch(what="evictions", metric="Evictions", statistic="Sum", above=0, said="rows are dropped before they expire"),
    _Watch(
        what="connections",
        metric="CurrConnections",
        statistic="Maximum",
        above=_MANY_CONNECTIONS,
        said="clients open connections faster than they close them",
    ),
    _Watch(
        what="logins",
        metric="AuthenticationFailures",
        statistic="Sum",
        above=0,
        said="somebody logs in with a wrong user or token",
    ),
)
_NODES = (
    *_BOTH,
    _Watch(
        what="memory",
        metric="DatabaseMemoryUsagePercentage",
        statistic="Maximum",
        above=80,
        said="memory is nearly full",
    ),
    _Watch(what="cpu", metric="EngineCPUUtilization", statistic="Average", above=80, said="the engine's core is busy"),
    _Watch(what="lag", metric="ReplicationLag", statistic="Maximum", above=1, said="a standby is a second behind"),
)


class ServerlessAlarms(Construct):
    """Data and ECPU near their limits, throttled commands, evictions, connections, refused log-ins."""

    def __init__(self, scope: Construct, id_: str, *, cache: str, limits: Limits) -> None:
        super().__init__(scope, id_)
        watches = (
            *_BOTH,
            _Watch(
                what="throttles", metric="ThrottledCmds", statistic="Sum", above=0, said="commands are refused or wait"
            ),
            _Watch(
                what="memory",
                metric="BytesUsedForCache",
                statistic="Maximum",
                above=limits.data_gb * _BYTES_PER_GB * _NEARLY_FULL,
                said="data is near the limit, where writes fail",
            ),
            _Watch(
                what="ecpu",
                metric="ElastiCacheProcessingUnits",
                statistic="Sum",
                above=limits.ecpu_per_second * _PERIOD_S * _NEARLY_FULL,
                said="work is near the limit, where commands are throttled",
            ),
        )
        for watch in watches:
            _alarm(self, cache, watch, _metric(watch, {"clusterId": cache}))


class NodeAlarms(Construct):
    """The worst node's memory, CPU, evictions, connections and refused log-ins, and how far a standby is behind."""

    def __init__(self, scope: Construct, id_: str, *, cache: str, nodes: int) -> None:
        super().__init__(scope, id_)
        # ElastiCache names the members of a group <group>-001, -002, …
        members = [f"{cache}-{number:03d}" for number in range(1, nodes + 1)]
        for watch in _NODES:
            _alarm(self, cache, watch, _worst(watch, members))


def _metric(watch: _Watch, dimensions: dict[str, str]) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=_NAMESPACE,
        metric_name=watch.metric,
        dimensions_map=dimensions,
        statistic=watch.statistic,
        period=_PERIOD,
    )


def _worst(watch: _Watch, members: Sequence[str]) -> cloudwatch.MathExpression:
    using = {f"n{number}": _metric(watch, {"CacheClusterId": member}) for number, member in enumerate(members, start=1)}
    return cloudwatch.MathExpression(
        expression=f"MAX([{', '.join(using)}])", using_metrics=using, label=watch.metric, period=_PERIOD
    )


def _alarm(scope: Construct, cache: str, watch: _Watch, metric: cloudwatch.IMetric) -> None:
    cloudwatch.Alarm(
        scope,
        watch.what.capitalize(),
        alarm_name=f"{cache}-{watch.what}",
        alarm_description=f"{cache}: {watch.said}",
        metric=metric,
        threshold=watch.above,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        datapoints_to_alarm=3,
        evaluation_periods=5,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )
