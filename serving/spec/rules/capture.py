"""How much data capture writes a day and what keeping it costs, and whether drift has rows enough."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from serving.spec.hosting import HostingMode
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding
from serving.spec.rules.payload import known_bytes
from serving.spec.rules.stage_model import Placed, PlacedRule
from serving.spec.stage import SLOTS

_DAY_S = 86_400
_GIGABYTE = 1_000_000_000
_MS = 1000
# S3 Standard, first 50 TB, us-east-1 list price; other regions differ a little: aws.amazon.com/s3/pricing
_USD_A_GB_MONTH = 0.023
# Tensors are written in base64 beside about this much JSON of metadata (guide, *model-monitor-data-capture*).
_EVENT_BYTES = 600
_UNKNOWN_TENSOR_BYTES = 256
_BASE64 = 4 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureVolume:
    """Data capture of one model at the most it can answer, all day: an upper bound."""

    requests_a_day: float
    gb_a_day: float
    usd_a_month: float


def capture_volume(model: ModelSpec, *, percent: int, kept_days: int) -> CaptureVolume:
    """Give what capture writes at peak, or at what the largest fleet answers, and the storage bill of `kept_days`."""
    requests_a_day = busiest_qps(model) * _DAY_S * percent / 100
    tensors = (*model.inputs, *model.outputs)
    rows = max(1, model.api.max_candidates)
    content = rows * sum(known_bytes(tensor) or _UNKNOWN_TENSOR_BYTES for tensor in tensors)
    gb_a_day = requests_a_day * (content * _BASE64 + _EVENT_BYTES) / _GIGABYTE
    usd_a_month = gb_a_day * kept_days * _USD_A_GB_MONTH
    return CaptureVolume(requests_a_day=requests_a_day, gb_a_day=gb_a_day, usd_a_month=usd_a_month)


def busiest_qps(model: ModelSpec) -> float:
    """Give the requests a second of the peak, or fewer where the largest fleet of both slots answers fewer."""
    hosting, target = model.hosting, model.hosting.scaling.target_concurrency
    units = hosting.component.max_copies if hosting.component is not None else hosting.max_count
    carried = target * units * len(SLOTS) / (model.budget.invoke_ms / _MS) if target is not None else model.slo.peak_qps
    return min(model.slo.peak_qps, carried)


def drift_has_rows(placed: Placed) -> Iterator[Finding]:
    """A window with fewer rows than `drift.min_rows`, even at peak, says nothing of drift."""
    model, drift = placed.model, placed.model.drift
    if model.hosting.mode is not HostingMode.REALTIME:
        return
    expected = busiest_qps(model) * drift.window_s * drift.capture_percent / 100
    if drift.capture_percent > 0 and expected < drift.min_rows:
        got = f"{drift.capture_percent}: {expected:.0f} rows a window at peak"
        allowed = f"at least drift.min_rows = {drift.min_rows}"
        yield f"{placed.key}.capture_percent", got, allowed, "capture more, or lengthen drift.window_s", ""


def captures_outlive_drift(placed: Placed) -> Iterator[Finding]:
    """Captures are kept as long as a drift alarm looks back: what raised it can be read again."""
    kept_days, drift = placed.stage.captures_kept_days, placed.model.drift
    least_days = math.ceil(drift.window_s * drift.of_windows / _DAY_S)
    if drift.capture_percent > 0 and 1 <= kept_days < least_days:
        allowed = f"at least {least_days}: {placed.own.name} looks at {drift.of_windows} windows of {drift.window_s} s"
        yield "capture_retention_days", str(kept_days), allowed, "raise it, or shorten drift.window_s", ""


RULES: tuple[PlacedRule, ...] = (captures_outlive_drift,)
WARNINGS: tuple[PlacedRule, ...] = (drift_has_rows,)
