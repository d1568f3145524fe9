"""Drift in a rehearsal: inputs drawn around the version's own baseline, the product's statistics, the alarm's rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from lambdas.drift.run import watched
from local.alarms import evaluate
from local.cloudwatch.samples import Sample
from serving.spec import ModelSpec, Slot
from serving.telemetry.baseline import Baseline, FeatureBaseline
from serving.telemetry.counts import FeatureCounts, WindowCounts
from serving.telemetry.drift import DriftReport, Window, compare

_STREAM = 2
_MOST_ROWS = 5_000
"""Rows of a window; captures are sampled, and more of them only make chance smaller."""
_TILT = 1.5
"""Drifted inputs: chances of the highest bin e^3 times as much more likely than those of the lowest; PSI about 0.8."""


@dataclass(slots=True, kw_only=True)
class DriftPlay:
    """Runs drift over one window after the other; `reports` are all of them, `alarm` the state after the last."""

    seed: int
    model: ModelSpec
    baseline: Baseline
    slot: Slot
    version: str
    reports: list[DriftReport]
    alarm: str = "INSUFFICIENT_DATA"

    def run(self, end: datetime, *, number: int, drifted: bool) -> DriftReport | None:
        """Run window `number`, which ends then; None for a version without anything to watch."""
        baseline = watched(self.baseline, self.model)
        if not baseline.features:
            return None
        rules = self.model.drift
        rng = np.random.default_rng([self.seed, _STREAM, number])
        window = Window(
            model=self.model.name,
            version=self.version,
            slot=self.slot,
            start=end - timedelta(seconds=rules.window_s),
            end=end,
        )
        counts = _counts(rng, baseline, rows=max(_MOST_ROWS, rules.min_rows), drifted=drifted)
        report = compare(baseline, counts, window=window, rules=rules, past=self.reports[-rules.of_windows :])
        self.reports.append(report)
        self.alarm = self._alarm_state(end)
        return report

    def _alarm_state(self, now: datetime) -> str:
        """Give the state of the stage's alarm of this model (infra: DriftAlarms)."""
        rules = self.model.drift
        metric = {"Namespace": "StreamHub/Inference", "MetricName": "MaxDriftScore", "Dimensions": []}
        alarm = {
            "AlarmName": f"{self.model.slug}-drift",
            **metric,
            "Statistic": "Maximum",
            "Period": rules.window_s,
            "EvaluationPeriods": rules.of_windows,
            "DatapointsToAlarm": rules.alarm_windows,
            "Threshold": rules.alarm_size,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "TreatMissingData": "notBreaching",
            "StateValue": self.alarm,
        }
        samples = [
            Sample.of_value(report.window.end.timestamp(), report.max_score)
            for report in self.reports[-rules.of_windows - 2 :]
        ]
        return evaluate(alarm, lambda _metric, _since_s: samples, now).state


def _counts(rng: np.random.Generator, baseline: Baseline, *, rows: int, drifted: bool) -> WindowCounts:
    return WindowCounts(
        rows=rows,
        requests=rows,
        row_squares=float(rows),
        features=tuple(
            _feature(rng, feature, rows=rows, drifted=drifted and index % 2 == 0)
            for index, feature in enumerate(baseline.features)
        ),
    )


def _feature(rng: np.random.Generator, feature: FeatureBaseline, *, rows: int, drifted: bool) -> FeatureCounts:
    chances = _chances([*feature.counts, feature.missing])
    if drifted:
        chances = _chances(chances * np.exp(np.linspace(-_TILT, _TILT, chances.size)))
    counts = rng.multinomial(rows, chances)
    alone = counts.astype(np.float64)  # a row a request: nothing hangs together
    return FeatureCounts(name=feature.name, counts=counts, squares=alone, crosses=alone)


def _chances(weights: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    found = np.asarray(weights, dtype=np.float64)
    return np.asarray(found / found.sum(), dtype=np.float64)
