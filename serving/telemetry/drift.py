"""Drift: counts of a window against a version's baseline; significance and size and persistence together.

A feature drifts when chance cannot explain the difference (chi-square, false discovery rate over all features), the
difference is large (stability index less what chance alone shows), and both held in several windows (docs/drift.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

import numpy as np

from serving.spec import DriftSpec, Slot
from serving.telemetry.baseline import Baseline, FeatureBaseline, baseline_from_dict, make_baseline
from serving.telemetry.counts import FeatureCounts, WindowCounts, design_effect
from serving.telemetry.significance import chance_index, discoveries, homogeneity, pool_rare, stability_index

__all__ = [
    "Baseline",
    "DriftReport",
    "FeatureBaseline",
    "FeatureDrift",
    "Level",
    "Verdict",
    "Window",
    "baseline_from_dict",
    "compare",
    "make_baseline",
]


class Level(StrEnum):
    """How far one feature is from its baseline, in one window."""

    OK = "ok"
    WARN = "warn"
    ALARM = "alarm"


class Verdict(StrEnum):
    """What a window says; the last two say nothing, which is neither good nor bad."""

    OK = "ok"
    WARN = "warn"
    ALARM = "alarm"
    TOO_FEW_ROWS = "too-few-rows"
    NO_TRAFFIC = "no-traffic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Whose rows, and of when: from `start` until before `end`."""

    model: str
    version: str
    slot: Slot
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDrift:
    """One feature in one window.

    `size` is the stability index less what chance shows; `effective_rows` are the rows as if all were independent;
    `unseen_share` is outside of all that the baseline showed. `drifted` needs `alarm` in several windows.
    """

    name: str
    level: Level
    drifted: bool
    size: float
    p_value: float
    significant: bool
    effective_rows: float
    missing_share: float
    unseen_share: float
    baseline_missing_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """What one window of one slot says."""

    window: Window
    verdict: Verdict
    text: str
    rows: int
    requests: int
    unreadable: int
    features: tuple[FeatureDrift, ...] = ()

    @property
    def max_score(self) -> float:
        """The largest size among features that chance cannot explain; 0 when there is none."""
        return max((feature.size for feature in self.features if feature.significant), default=0.0)

    @property
    def drifted_share(self) -> float:
        """The share of features at least at the level of a warning, 0..1."""
        if not self.features:
            return 0.0
        return sum(feature.level is not Level.OK for feature in self.features) / len(self.features)

    @property
    def says_something(self) -> bool:
        """There were rows enough to compare."""
        return self.verdict not in {Verdict.NO_TRAFFIC, Verdict.TOO_FEW_ROWS}


def compare(
    baseline: Baseline,
    counts: WindowCounts,
    *,
    window: Window,
    rules: DriftSpec,
    past: Sequence[DriftReport] = (),
    unreadable: int = 0,
) -> DriftReport:
    """Compare a window with its version's baseline.

    Args:
        baseline: of the version that answered.
        counts: of the window, in the baseline's bins.
        window: whose and when.
        rules: when a difference counts.
        past: earlier reports of the slot, any number; those of another version do not count.
        unreadable: captured records that could not be read.

    """
    if counts.rows < rules.min_rows:
        return _without_verdict(counts, window, rules, unreadable)
    found = [
        _measure(feature, count, counts) for feature, count in zip(baseline.features, counts.features, strict=True)
    ]
    significant = discoveries([measured.p_value for measured in found], rate=rules.fdr)
    recent = _recent(past, window, rules.of_windows - 1)
    features = tuple(
        _judge(measured, significant=stands, rules=rules, recent=recent)
        for measured, stands in zip(found, significant, strict=True)
    )
    verdict = _verdict(features)
    return DriftReport(
        window=window,
        verdict=verdict,
        text=_text(verdict, features, rules),
        rows=counts.rows,
        requests=counts.requests,
        unreadable=unreadable,
        features=features,
    )


def _measure(feature: FeatureBaseline, counts: FeatureCounts, window: WindowCounts) -> FeatureDrift:
    effective = window.rows / design_effect(counts, window)
    reference = np.array([*feature.counts, feature.missing], dtype=np.float64)
    current = np.asarray(counts.counts * (effective / window.rows), dtype=np.float64)
    reference, current = pool_rare(reference, current)
    _, p_value = homogeneity(reference, current)
    index = stability_index(reference, current)
    unseen = int(counts.counts[0] + counts.counts[-2])
    return FeatureDrift(
        name=feature.name,
        level=Level.OK,
        drifted=False,
        size=index - chance_index(reference.size, feature.rows, effective),
        p_value=p_value,
        significant=False,
        effective_rows=effective,
        missing_share=int(counts.counts[-1]) / window.rows,
        unseen_share=unseen / window.rows,
        baseline_missing_share=feature.missing / feature.rows,
    )


def _judge(
    measured: FeatureDrift, *, significant: bool, rules: DriftSpec, recent: Sequence[DriftReport]
) -> FeatureDrift:
    level = Level.OK
    if significant and measured.size >= rules.warn_size:
        level = Level.ALARM if measured.size >= rules.alarm_size else Level.WARN
    earlier = sum(
        feature.level is Level.ALARM
        for report in recent
        for feature in report.features
        if feature.name == measured.name
    )
    drifted = level is Level.ALARM and earlier + 1 >= rules.alarm_windows
    return replace(measured, level=level, significant=significant, drifted=drifted)


def _recent(past: Sequence[DriftReport], window: Window, count: int) -> Sequence[DriftReport]:
    mine = (report for report in past if report.window.version == window.version and report.window.end < window.end)
    newest = sorted(mine, key=lambda report: report.window.end, reverse=True)
    return newest[:count]


def _verdict(features: Sequence[FeatureDrift]) -> Verdict:
    if any(feature.drifted for feature in features):
        return Verdict.ALARM
    return Verdict.WARN if any(feature.level is not Level.OK for feature in features) else Verdict.OK


def _text(verdict: Verdict, features: Sequence[FeatureDrift], rules: DriftSpec) -> str:
    if verdict is Verdict.OK:
        return "no watched feature differs from its baseline by more than chance and by enough to matter"
    shown = ", ".join(
        f"{feature.name} {feature.size:.2f}"
        for feature in sorted(features, key=lambda feature: -feature.size)
        if feature.level is not Level.OK
    )
    limits = f"warning at {rules.warn_size:g}, alarm at {rules.alarm_size:g}"
    if verdict is Verdict.ALARM:
        return (
            f"drifted: {', '.join(feature.name for feature in features if feature.drifted)} (in at least "
            f"{rules.alarm_windows} of {rules.of_windows} windows); sizes {shown}; {limits}"
        )
    return (
        f"differs: {shown}; {limits}; it drifts when {rules.alarm_windows} of {rules.of_windows} windows are at alarm"
    )


def _without_verdict(counts: WindowCounts, window: Window, rules: DriftSpec, unreadable: int) -> DriftReport:
    verdict = Verdict.TOO_FEW_ROWS if counts.rows else Verdict.NO_TRAFFIC
    return DriftReport(
        window=window,
        verdict=verdict,
        text=f"{counts.rows} of {rules.min_rows} rows: the window says nothing, and is no failure",
        rows=counts.rows,
        requests=counts.requests,
        unreadable=unreadable,
    )
