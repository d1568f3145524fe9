"""Endpoints with their live latency, as DescribeEndpoint and GetMetricData give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from local.page.document import MAX_ENDPOINTS, MAX_VARIANTS, Endpoint, Point, Variant, short
from serving.spec import ModelSpec, StageSpec, endpoint_name

SHOWN: Final = timedelta(minutes=10)
RECENT: Final = timedelta(minutes=1)
PERIOD_S: Final = 15
# periods begin at multiples of their length: one this much longer holds the whole last minute, but for rare moments
_WHOLE: Final = 1440
_US_PER_MS: Final = 1000.0
_QUERIES_PER_CALL: Final = 500
"""GetMetricData takes so many (API GetMetricData, MetricDataQueries)."""

_SERIES: Final[Mapping[str, tuple[str, str]]] = {
    "requests": ("Invocations", "Sum"),
    "errors": ("Invocation5XXErrors", "Sum"),
    "p50": ("ModelLatency", "p50"),
    "p99": ("ModelLatency", "p99"),
}
Series = Mapping[str, Mapping[datetime, float]]
_NOTHING: Final[Mapping[datetime, float]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the stage's files say of an endpoint."""

    model: ModelSpec
    versions: Mapping[str, str]


def known_endpoints(stage: StageSpec, models: Mapping[str, ModelSpec]) -> dict[str, Known]:
    """Give the stage's endpoints by name."""
    return {
        endpoint_name(stage.name, models[name].slug): Known(
            model=models[name], versions={"a": in_stage.versions.a, "b": in_stage.versions.b}
        )
        for name, in_stage in stage.models.items()
    }


class EndpointReader:
    """Reads all endpoints of one stack; ten minutes of a watch on the wall, whatever the stack's pace."""

    def __init__(
        self,
        *,
        sagemaker: Any,  # noqa: ANN401 - boto3 makes clients at run time
        cloudwatch: Any,  # noqa: ANN401
        known: Mapping[str, Known],
        pace: float = 1.0,
    ) -> None:
        self._sagemaker = sagemaker
        self._cloudwatch = cloudwatch
        self._known = known
        self._recent = RECENT * pace
        self._shown = SHOWN * pace
        self._period_s = max(1, round(PERIOD_S * pace))

    def read(self, now: datetime) -> tuple[list[Endpoint], int]:
        """Give the endpoints by name, and how many were left off."""
        names = sorted(
            entry["EndpointName"]
            for page in self._sagemaker.get_paginator("list_endpoints").paginate()
            for entry in page["Endpoints"]
        )
        found = [self._sagemaker.describe_endpoint(EndpointName=name) for name in names[:MAX_ENDPOINTS]]
        pairs = [(one["EndpointName"], variant["VariantName"]) for one in found for variant in _variants(one)]
        lately = self._metrics(
            pairs, start=now - self._recent, end=now, period_s=round(self._recent.total_seconds()) * _WHOLE
        )
        shown = self._metrics(pairs, start=now - self._shown, end=now, period_s=self._period_s)
        endpoints = [
            _endpoint(one, self._known.get(one["EndpointName"]), lately, shown, now, period_s=self._period_s)
            for one in found
        ]
        return endpoints, max(0, len(names) - MAX_ENDPOINTS) + sum(
            max(0, len(_all_variants(one)) - MAX_VARIANTS) for one in found
        )

    def _metrics(
        self, pairs: Sequence[tuple[str, str]], *, start: datetime, end: datetime, period_s: int
    ) -> dict[tuple[str, str], Series]:
        asked = [(pair, name) for pair in pairs for name in _SERIES]
        found: dict[tuple[str, str], dict[str, Mapping[datetime, float]]] = {pair: {} for pair in pairs}
        for first in range(0, len(asked), _QUERIES_PER_CALL):
            part = asked[first : first + _QUERIES_PER_CALL]
            queries = [_query(index, pair, name, period_s) for index, (pair, name) in enumerate(part)]
            answer = self._cloudwatch.get_metric_data(MetricDataQueries=queries, StartTime=start, EndTime=end)
            for result in answer["MetricDataResults"]:
                pair, name = part[int(result["Id"][1:])]
                found[pair][name] = dict(zip(result["Timestamps"], result["Values"], strict=True))
        return dict(found)


def _query(index: int, pair: tuple[str, str], name: str, period_s: int) -> dict[str, Any]:
    metric, statistic = _SERIES[name]
    dimensions = [{"Name": "EndpointName", "Value": pair[0]}, {"Name": "VariantName", "Value": pair[1]}]
    return {
        "Id": f"m{index}",
        "MetricStat": {
            "Metric": {"Namespace": "AWS/SageMaker", "MetricName": metric, "Dimensions": dimensions},
            "Period": period_s,
            "Stat": statistic,
        },
    }


def _variants(described: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return _all_variants(described)[:MAX_VARIANTS]


def _all_variants(described: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    variants: list[Mapping[str, Any]] = described.get("ProductionVariants", [])
    return variants


def _endpoint(
    described: Mapping[str, Any],
    known: Known | None,
    lately: Mapping[tuple[str, str], Series],
    shown: Mapping[tuple[str, str], Series],
    now: datetime,
    *,
    period_s: int,
) -> Endpoint:
    name, variants = described["EndpointName"], _variants(described)
    current = sum(variant.get("CurrentWeight", 0.0) for variant in _all_variants(described))
    desired = sum(variant.get("DesiredWeight", 0.0) for variant in _all_variants(described))
    return Endpoint(
        name=short(name),
        model=known.model.name if known is not None else "",
        status=described["EndpointStatus"],
        failure=short(described.get("FailureReason", "")),
        budget_p99_ms=known.model.slo.p99_ms if known is not None else None,
        period_s=period_s,
        variants=[
            Variant(
                name=variant["VariantName"],
                version=known.versions.get(variant["VariantName"], "") if known is not None else "",
                share=_share(variant.get("CurrentWeight", 0.0), current),
                desired_share=_share(variant.get("DesiredWeight", 0.0), desired),
                instances=variant.get("CurrentInstanceCount", 0),
                desired_instances=variant.get("DesiredInstanceCount", 0),
                recent=_recent(lately[name, variant["VariantName"]], now),
                points=list(_points(shown[name, variant["VariantName"]])),
            )
            for variant in variants
        ],
    )


def _share(weight: float, total: float) -> float:
    return weight / total if total > 0 else 0.0


def _recent(series: Series, now: datetime) -> Point:
    points = list(_points(series))
    return replace(points[-1], at=now) if points else Point(at=now, requests=0, errors=0, p50_ms=None, p99_ms=None)


def _points(series: Series) -> Iterator[Point]:
    requests = series.get("requests", _NOTHING)
    for at in sorted(requests):
        yield Point(
            at=at,
            requests=round(requests[at]),
            errors=round(series.get("errors", _NOTHING).get(at, 0.0)),
            p50_ms=_ms(series.get("p50", _NOTHING).get(at)),
            p99_ms=_ms(series.get("p99", _NOTHING).get(at)),
        )


def _ms(value_us: float | None) -> float | None:
    return value_us / _US_PER_MS if value_us is not None else None
