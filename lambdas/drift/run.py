"""One drift run: the captures of a window of one slot, folded, compared, written down, published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

import numpy as np

from lambdas.drift.columns import Columns, Floats
from serving.errors import ModelNotFoundError, TelemetryError
from serving.ports import MetricSink
from serving.protocol.tensors import InferRequest, InferResponse
from serving.spec import ModelSpec, Slot, StageSpec, endpoint_name
from serving.telemetry.baseline import Baseline
from serving.telemetry.counts import WindowCounts, fold, no_counts
from serving.telemetry.drift import DriftReport, Window, compare
from serving.telemetry.monitor_documents import STATISTICS, VIOLATIONS, statistics, violations

BaselineSource = Callable[[str, str], Baseline]
"""Model and version to the version's own baseline, all of its features."""


NOTHING_WATCHED = "no feature is watched: the spec names none and the version has no baseline"


class Captured(Protocol):
    """One request and its answer."""

    @property
    def request(self) -> InferRequest: ...  # noqa: D102 - the class says it

    @property
    def response(self) -> InferResponse: ...  # noqa: D102


class CapturedBatch(Protocol):
    """Some requests of a window, and how many more could not be read."""

    @property
    def captures(self) -> Sequence[Captured]: ...  # noqa: D102

    @property
    def unreadable(self) -> int: ...  # noqa: D102


class CaptureReader(Protocol):
    """Where captured requests come from."""

    def read(self, endpoint: str, slot: Slot, *, start: datetime, end: datetime) -> Iterator[CapturedBatch]:
        """Give what was captured from `start` until before `end`."""
        ...


class ReportStore(Protocol):
    """Where reports go."""

    def write(self, report: DriftReport, documents: Mapping[str, object]) -> str:
        """Write a report and its documents, and give where."""
        ...

    def between(self, model: str, slot: Slot, *, after: datetime, before: datetime) -> Sequence[DriftReport]:
        """Give the reports of windows that ended after one time and before another."""
        ...


class Drift:
    """Runs drift for the models of one stage."""

    def __init__(
        self,
        *,
        stage: StageSpec,
        models: Mapping[str, ModelSpec],
        captures: CaptureReader,
        baselines: BaselineSource,
        reports: ReportStore,
        metrics: MetricSink,
    ) -> None:
        self._stage = stage
        self._models = models
        self._captures = captures
        self._baselines = baselines
        self._reports = reports
        self._metrics = metrics

    def run(
        self,
        model: str,
        slot: Slot,
        *,
        window_end: datetime,
        captured: tuple[datetime, datetime] | None = None,
    ) -> DriftReport:
        """Compare one window of one slot with its version's baseline; no traffic is no failure.

        Args:
            model: its name.
            slot: whose captures.
            window_end: the window's nominal end: of its report, its metrics and its place among earlier windows.
            captured: from when until before when captures are read; default: the window itself.

        Raises:
            TelemetryError: captures, baseline or reports cannot be read, or a watched feature is none of the model's.

        """
        spec, version = self._spec(model), self._version(model, slot)
        length = timedelta(seconds=spec.drift.window_s)
        window = Window(model=model, version=version, slot=slot, start=window_end - length, end=window_end)
        start, end = captured if captured is not None else (window.start, window.end)
        baseline = watched(self._baselines(model, version), spec)
        counts, unreadable = self._fold(spec, slot, baseline, start=start, end=end)
        past = self._reports.between(model, slot, after=window_end - spec.drift.of_windows * length, before=window_end)
        report = compare(baseline, counts, window=window, rules=spec.drift, past=past, unreadable=unreadable)
        if not baseline.features:
            report = replace(report, text=NOTHING_WATCHED)
        documents = {STATISTICS: statistics(baseline, counts), VIOLATIONS: violations(report)}
        self._reports.write(report, documents)
        self._publish(spec, report)
        return report

    def baseline(self, model: str, slot: Slot) -> tuple[str, Baseline]:
        """Give the version in a slot and what of its baseline is watched."""
        version = self._version(model, slot)
        return version, watched(self._baselines(model, version), self._spec(model))

    def _fold(
        self, spec: ModelSpec, slot: Slot, baseline: Baseline, *, start: datetime, end: datetime
    ) -> tuple[WindowCounts, int]:
        columns = Columns(spec, [feature.name for feature in baseline.features])
        counts, unreadable = no_counts(baseline), 0
        if not baseline.features:
            return counts, unreadable
        for batch in self._captures.read(endpoint_name(self._stage.name, spec.slug), slot, start=start, end=end):
            rows, broken = _rows(columns, batch.captures)
            unreadable += batch.unreadable + broken
            if rows:
                counts = counts.merge(_fold_all(baseline, rows))
        return counts, unreadable

    def _publish(self, spec: ModelSpec, report: DriftReport) -> None:
        dimensions = {"Stage": self._stage.name, "Endpoint": endpoint_name(self._stage.name, spec.slug)}
        values = {"DriftRunCompleted": (1.0, "Count")}
        if report.says_something:
            values["MaxDriftScore"] = (report.max_score, "None")
            values["DriftedFeatureShare"] = (report.drifted_share, "None")
        for name, (value, unit) in values.items():
            self._metrics.put(name, value, unit=unit, dimensions=dimensions, at=report.window.end)

    def _spec(self, model: str) -> ModelSpec:
        if model not in self._models or model not in self._stage.models:
            raise ModelNotFoundError(
                f"model: got {model!r}; allowed {', '.join(sorted(self._stage.models))}; name one of stage "
                f"{self._stage.name}"
            )
        return self._models[model]

    def _version(self, model: str, slot: Slot) -> str:
        self._spec(model)
        versions = self._stage.models[model].versions
        return versions.a if slot == "a" else versions.b


def watched(baseline: Baseline, spec: ModelSpec) -> Baseline:
    """Give the features that the spec watches; all of the baseline's when it names none.

    Raises:
        TelemetryError: the baseline lacks one.

    """
    if not spec.drift.features:
        return baseline
    known = {feature.name: feature for feature in baseline.features}
    missing = [name for name in spec.drift.features if name not in known]
    if missing:
        raise TelemetryError(
            f"model {spec.name}: drift features: got {', '.join(missing)}; allowed those of the version's baseline, "
            f"{', '.join(known)}; correct [drift] features, or train the version anew"
        )
    return replace(baseline, features=tuple(known[name] for name in spec.drift.features))


def _rows(columns: Columns, captures: Iterable[Captured]) -> tuple[list[dict[str, Floats]], int]:
    rows, broken = [], 0
    for capture in captures:
        try:
            rows.append(columns.rows(capture.request, capture.response))
        except TelemetryError:
            # a request that the model refused, say; counted in the report
            broken += 1
    return rows, broken


def _fold_all(baseline: Baseline, rows: Sequence[dict[str, Floats]]) -> WindowCounts:
    names = [feature.name for feature in baseline.features]
    sizes = [row[names[0]].size for row in rows]
    return fold(baseline, {name: np.concatenate([row[name] for row in rows]) for name in names}, sizes)
