"""Metrics as ministack keeps them, read by our GetMetricData and GetMetricStatistics, in its three protocols."""

# ruff: noqa: SLF001 - private hooks are what this module is for

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from botocore.model import Shape

from local.aws_json import ValidationError, check, service_model
from local.cloudwatch.alarm_requests import RequestError
from local.cloudwatch.math_values import MathError
from local.cloudwatch.metric_data import metric_data, metric_statistics
from local.cloudwatch.query_protocol import as_xml, structured, with_timestamps
from local.cloudwatch.samples import Sample
from serving.errors import LocalStackError

_CLOUDWATCH = "ministack.services.cloudwatch"
HOOKS: Final = (
    "_get_metric_data",
    "_get_metric_statistics",
    "_parse_ts",
    "_cbor_ok",
    "_cbor_timestamp",
    "_json_ok",
    "_xml",
    "_error",
)
"""Every further name of ministack's CloudWatch that this module touches."""

Answer = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True, slots=True)
class Wire:
    """One operation's request and answer in the protocol in which it was asked: CBOR, JSON, or the query protocol."""

    operation: str
    is_cbor: bool
    is_json: bool

    def request(self, params: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
        """Give the parameters as boto3 takes them.

        Raises:
            ValidationError: they do not fit botocore's model of the operation.

        """
        shape = self._shape("input")
        if self.is_cbor or self.is_json:
            found = {name: value for name, value in data.items() if value is not None}
        else:
            flat = {name: value[0] if isinstance(value, list) else value for name, value in params.items()}
            found = structured(flat, shape)
        check(found, shape)
        return found

    def answer(self, document: dict[str, Any]) -> Answer:
        """Give an answer; its timestamps are seconds since the epoch."""
        store, shape = _store(), self._shape("output")
        answer: Answer
        if self.is_cbor:
            answer = store._cbor_ok(with_timestamps(document, shape, store._cbor_timestamp))
        elif self.is_json:
            answer = store._json_ok(document)
        else:
            body = as_xml(with_timestamps(document, shape, _iso), shape)
            answer = store._xml(
                200, f"{self.operation}Response", f"<{self.operation}Result>{body}</{self.operation}Result>"
            )
        return answer

    def refused(self, message: str, code: str = RequestError.code) -> Answer:
        """Give an error of CloudWatch, ValidationError unless told otherwise."""
        answer: Answer = _store()._error(code, message, 400, use_json=self.is_json, use_cbor=self.is_cbor)
        return answer

    def _shape(self, side: str) -> Shape:
        operation = service_model("cloudwatch").operation_model(self.operation)
        shape: Shape | None = operation.input_shape if side == "input" else operation.output_shape
        if shape is None:
            raise LocalStackError(f"cloudwatch.{self.operation}: got no {side}; allowed: an operation that has one")
        return shape


def get_metric_data(params: Any, data: Any, is_cbor: bool, is_json: bool = False) -> Answer:  # noqa: ANN401, FBT001, FBT002 - as ministack calls it
    """Answer GetMetricData in place of ministack, which knows no expressions."""
    wire = Wire("GetMetricData", is_cbor=is_cbor, is_json=is_json)
    try:
        request = wire.request(params, data)
        start_s, end_s = _range(request)
        ascending = request.get("ScanBy") == "TimestampAscending"
        found = metric_data(request["MetricDataQueries"], samples, start_s=start_s, end_s=end_s, ascending=ascending)
    except (RequestError, ValidationError, MathError) as error:
        return wire.refused(str(error))
    results = [
        {
            "Id": result.id,
            "Label": result.label,
            "Timestamps": list(result.timestamps),
            "Values": list(result.values),
            "StatusCode": "Complete",
        }
        for result in found
    ]
    return wire.answer({"MetricDataResults": results})


def get_metric_statistics(params: Any, data: Any, is_cbor: bool, is_json: bool = False) -> Answer:  # noqa: ANN401, FBT001, FBT002 - as ministack calls it
    """Answer GetMetricStatistics in place of ministack, which takes a metric without dimensions for all of its name."""
    wire = Wire("GetMetricStatistics", is_cbor=is_cbor, is_json=is_json)
    try:
        request = wire.request(params, data)
        start_s, end_s = _range(request)
        points = metric_statistics(request, samples, start_s=start_s, end_s=end_s)
    except RequestError as error:
        return wire.refused(str(error), error.code)
    except ValidationError as error:
        return wire.refused(str(error))
    unit = request.get("Unit") or _unit(request)
    return wire.answer({"Label": request["MetricName"], "Datapoints": [{**point, "Unit": unit} for point in points]})


def samples(metric: Mapping[str, Any], since_s: float) -> Iterator[Sample]:
    """Give what was published of exactly one metric, of its Unit if it has one."""
    unit = metric.get("Unit")
    for point in _points(metric):
        if point["Timestamp"] >= since_s and unit in {None, "", point.get("Unit")}:
            yield _sample(point)


def _sample(point: Mapping[str, Any]) -> Sample:
    statistics = point.get("_stat")
    if statistics is None:
        return Sample.of_value(float(point["Timestamp"]), float(point["Value"]), float(point.get("Count", 1)))
    return Sample(
        timestamp_s=float(point["Timestamp"]),
        count=float(statistics.get("SampleCount", 0)),
        total=float(statistics.get("Sum", 0)),
        least=float(statistics.get("Minimum", 0)),
        most=float(statistics.get("Maximum", 0)),
    )


def _points(metric: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give what ministack holds of one metric: namespace, name and all dimensions."""
    store = _store()
    dimensions = {entry["Name"]: entry["Value"] for entry in metric.get("Dimensions") or ()}
    found: list[dict[str, Any]] | None = store._metrics.get(
        (metric["Namespace"], metric["MetricName"], store._dims_key(dimensions))
    )
    return found or []


def _range(request: Mapping[str, Any]) -> tuple[float, float]:
    start, end = (_store()._parse_ts(request[name]) for name in ("StartTime", "EndTime"))
    if start is None or end is None:
        raise RequestError("StartTime and EndTime must be timestamps.")
    return start, end


def _unit(metric: Mapping[str, Any]) -> str:
    """Give the unit in which a metric was first published."""
    return next((str(point.get("Unit") or "None") for point in _points(metric)), "None")


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _store() -> Any:  # noqa: ANN401 - ministack has no types
    return importlib.import_module(_CLOUDWATCH)
