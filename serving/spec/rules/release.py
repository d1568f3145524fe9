"""Rules on releases and on drift."""

from __future__ import annotations

from collections.abc import Iterator

from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.source import ALARM_API, ENDPOINT_API

MAX_CAPTURE_PERCENT = 100
_HOUR_S, _DAY_S, _WEEK_S = 3600, 86_400, 604_800


def ramp_only_rises(model: ModelSpec) -> Iterator[Finding]:
    """A ramp only adds units (docs/api.md); a share of 1 is a promotion, not a test."""
    ramp = model.release.ramp
    if not ramp or list(ramp) != sorted(set(ramp)) or not all(0 < share < 1 for share in ramp):
        yield "release.ramp", str(list(ramp)), "ascending shares above 0 and below 1", "order it", ""
    if model.release.min_uplift < 0:
        yield "release.min_uplift", f"{model.release.min_uplift:g}", "0 or more, relative", "correct it", ""


def capture_is_a_percentage(model: ModelSpec) -> Iterator[Finding]:
    """Data capture samples 0 to 100 percent; M of N windows needs M ≤ N."""
    drift = model.drift
    if not 0 <= drift.capture_percent <= MAX_CAPTURE_PERCENT:
        yield "drift.capture_percent", str(drift.capture_percent), "0 to 100", "correct it", ENDPOINT_API
    if not 1 <= drift.alarm_windows <= drift.of_windows:
        yield "drift.alarm_windows", str(drift.alarm_windows), f"1 to of_windows = {drift.of_windows}", "correct it", ""


def windows_can_be_scheduled(model: ModelSpec) -> Iterator[Finding]:
    """A drift window is the period of its alarm and the rate of its schedule: whole minutes, at most a day."""
    window_s = model.drift.window_s
    if not 0 < window_s <= _DAY_S or window_s % 60 or _DAY_S % window_s:
        allowed = f"whole minutes that divide a day ({_DAY_S} s)"
        yield "drift.window_s", str(window_s), allowed, "choose 3600, or another", "AWS API_PutMetricAlarm, Period"


def drift_alarm_is_possible(model: ModelSpec) -> Iterator[Finding]:
    """An alarm looks back a week at most, and a day with periods under an hour; the heartbeat looks at two windows."""
    drift = model.drift
    longest_s = _WEEK_S if drift.window_s >= _HOUR_S else _DAY_S
    if drift.of_windows * drift.window_s > longest_s:
        got = f"{drift.of_windows} of {drift.window_s} s"
        yield "drift.of_windows", got, f"together at most {longest_s} s", "look less far back", ALARM_API


RULES: tuple[Rule, ...] = (
    ramp_only_rises,
    capture_is_a_percentage,
    windows_can_be_scheduled,
    drift_alarm_is_possible,
)
