"""The newest drift report of each slot, feature by feature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from local.page.document import MAX_DRIFT_WINDOWS, MAX_FEATURES, DriftWindow, Feature, short
from serving.spec import SLOTS, DriftSpec, ModelSpec, Slot
from serving.telemetry.drift import DriftReport


class Reports(Protocol):
    """Where reports come from."""

    def newest(self, model: str, slot: Slot) -> DriftReport | None:
        """Give the report whose window ended last, or None before the first one."""
        ...


class DriftReader:
    """Reads the drift of a stage's models."""

    def __init__(self, reports: Reports, models: Mapping[str, ModelSpec]) -> None:
        self._reports = reports
        self._models = models

    def read(self) -> tuple[list[DriftWindow], int]:
        """Give a window a slot that has one, and how many windows and features were left off.

        Raises:
            TelemetryError: the reports cannot be read.

        """
        found = [
            (self._models[name].drift, report)
            for name in sorted(self._models)
            for slot in SLOTS
            if (report := self._reports.newest(name, slot)) is not None
        ]
        shown = found[:MAX_DRIFT_WINDOWS]
        left_off = len(found) - len(shown) + sum(max(0, len(report.features) - MAX_FEATURES) for _, report in shown)
        return [_window(rules, report) for rules, report in shown], left_off


def _window(rules: DriftSpec, report: DriftReport) -> DriftWindow:
    features = sorted(report.features, key=lambda feature: -feature.size)[:MAX_FEATURES]
    return DriftWindow(
        model=report.window.model,
        slot=report.window.slot,
        version=report.window.version,
        start=report.window.start,
        end=report.window.end,
        verdict=report.verdict.value,
        text=short(report.text),
        rows=report.rows,
        requests=report.requests,
        warn_size=rules.warn_size,
        alarm_size=rules.alarm_size,
        features=[
            Feature(
                name=short(feature.name),
                level=feature.level.value,
                drifted=feature.drifted,
                significant=feature.significant,
                size=feature.size,
                missing_share=feature.missing_share,
                unseen_share=feature.unseen_share,
            )
            for feature in features
        ],
    )
