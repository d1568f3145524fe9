"""When a feature drifts, and when it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from serving.errors import TelemetryError
from serving.spec import DriftSpec
from serving.spec.codec import from_json, to_json
from serving.telemetry.counts import WindowCounts, design_effect, fold, no_counts
from serving.telemetry.drift import Baseline, DriftReport, Level, Verdict, Window, compare, make_baseline

RULES = DriftSpec(min_rows=500, fdr=0.01)
HOUR = timedelta(hours=1)
T0 = datetime(2026, 1, 5, tzinfo=UTC)


def window(hour: int, version: str = "2.0.0") -> Window:
    return Window(model="ranker", version=version, slot="a", start=T0 + (hour - 1) * HOUR, end=T0 + hour * HOUR)


def columns(rows: int, *, seed: int, shift: float = 0.0, features: int = 8) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    made = {f"f{index}": random.gamma(2.0, 3.0, rows) for index in range(features)}
    made["f0"] = made["f0"] + shift
    return made


@pytest.fixture(name="baseline", scope="module")
def baseline_fixture() -> Baseline:
    return make_baseline(columns(20_000, seed=0))


@pytest.fixture(name="at")
def at_fixture(baseline: Baseline) -> Callable[..., DriftReport]:
    def report(hour: int, shift: float = 0.0, past: tuple[DriftReport, ...] = (), **rules: Any) -> DriftReport:
        counts = fold(baseline, columns(2_000, seed=hour, shift=shift), np.ones(2_000, dtype=int))
        return compare(baseline, counts, window=window(hour), rules=replace(RULES, **rules), past=past)

    return report


def test_counts_are_numpys_histogram_and_the_missing_rows(baseline: Baseline) -> None:
    values = columns(5_000, seed=3)
    values["f1"][:7] = np.nan
    counts = fold(baseline, values, np.ones(5_000, dtype=int))
    for feature, found in zip(baseline.features, counts.features, strict=True):
        present = values[feature.name][~np.isnan(values[feature.name])]
        # numpy's bins are closed on the left, ours on the right
        mirrored, _ = np.histogram(-present, bins=[-np.inf, *(-np.array(feature.edges[::-1])), np.inf])
        assert found.counts[:-1].tolist() == mirrored[::-1].tolist()
    assert counts.features[1].counts[-1] == 7


def test_folding_in_parts_is_folding_at_once(baseline: Baseline) -> None:
    values, sizes = columns(3_000, seed=4), np.full(300, 10)
    whole = fold(baseline, values, sizes)
    parts = no_counts(baseline)
    for start in range(0, 3_000, 1_000):
        part = {name: column[start : start + 1_000] for name, column in values.items()}
        parts = parts.merge(fold(baseline, part, sizes[:100]))
    assert (parts.rows, parts.requests, parts.row_squares) == (whole.rows, whole.requests, whole.row_squares)
    for left, right in zip(parts.features, whole.features, strict=True):
        for name in ("counts", "squares", "crosses"):
            np.testing.assert_allclose(getattr(left, name), getattr(right, name))
        assert (left.finite, left.lowest, left.highest) == (right.finite, right.lowest, right.highest)
        assert left.total == pytest.approx(right.total)


def test_rows_that_repeat_in_a_request_count_as_its_one_row(baseline: Baseline) -> None:
    users = columns(400, seed=5)
    repeated = {name: np.repeat(column, 25) for name, column in users.items()}
    counts = fold(baseline, repeated, np.full(400, 25))
    for feature in counts.features:
        assert design_effect(feature, counts) == pytest.approx(25, rel=0.02)


def test_independent_rows_have_a_design_effect_near_1(baseline: Baseline) -> None:
    counts = fold(baseline, columns(10_000, seed=6), np.full(400, 25))
    for feature in counts.features:
        assert design_effect(feature, counts) == pytest.approx(1, abs=0.25)


def test_no_drift_alarms_in_none_of_many_windows(at: Callable[..., DriftReport]) -> None:
    verdicts = [at(hour).verdict for hour in range(1, 101)]
    assert verdicts.count(Verdict.OK) == 100


def test_few_users_with_many_rows_each_are_no_drift(baseline: Baseline) -> None:
    alarms = 0
    for seed in range(30):
        users = columns(40, seed=1_000 + seed)
        counts = fold(baseline, {name: np.repeat(column, 50) for name, column in users.items()}, np.full(40, 50))
        report = compare(baseline, counts, window=window(1), rules=RULES)
        alarms += any(feature.level is not Level.OK for feature in report.features)
    assert alarms <= 1


def test_a_shift_alarms_in_its_second_window_and_not_in_its_first(at: Callable[..., DriftReport]) -> None:
    first = at(1, 4.0)
    assert (first.verdict, first.features[0].level, first.features[0].drifted) == (Verdict.WARN, Level.ALARM, False)
    second = at(2, 4.0, (first,))
    assert second.verdict is Verdict.ALARM
    assert [feature.name for feature in second.features if feature.drifted] == ["f0"]
    assert "f0" in second.text
    assert second.max_score == pytest.approx(second.features[0].size)
    assert second.drifted_share == pytest.approx(1 / 8)


def test_windows_of_long_ago_and_of_another_version_do_not_count(at: Callable[..., DriftReport]) -> None:
    first = at(1, 4.0)
    calm = tuple(at(hour) for hour in (2, 3))
    assert at(4, 4.0, (first, *calm)).verdict is Verdict.WARN
    other = replace(first, window=window(1, version="1.0.0"))
    assert at(2, 4.0, (other,)).verdict is Verdict.WARN


def test_what_is_significant_and_small_is_no_drift(baseline: Baseline) -> None:
    counts = fold(baseline, columns(200_000, seed=7, shift=0.1), np.ones(200_000, dtype=int))
    feature = compare(baseline, counts, window=window(1), rules=RULES).features[0]
    assert (feature.significant, feature.level) == (True, Level.OK)
    assert feature.size < 0.1


@pytest.mark.parametrize(("rows", "verdict"), [(0, Verdict.NO_TRAFFIC), (499, Verdict.TOO_FEW_ROWS)])
def test_a_window_with_too_few_rows_says_nothing(baseline: Baseline, rows: int, verdict: Verdict) -> None:
    counts = fold(baseline, columns(rows, seed=8, shift=50), np.ones(rows, dtype=int))
    report = compare(baseline, counts, window=window(1), rules=RULES)
    assert (report.verdict, report.features, report.says_something, report.max_score) == (verdict, (), False, 0.0)


def test_missing_values_are_a_bin_of_their_own(baseline: Baseline) -> None:
    values = columns(2_000, seed=9)
    values["f3"][:800] = np.nan
    report = compare(baseline, fold(baseline, values, np.ones(2_000, dtype=int)), window=window(1), rules=RULES)
    feature = report.features[3]
    assert (feature.level, feature.missing_share, feature.baseline_missing_share) == (Level.ALARM, 0.4, 0.0)


def test_values_never_seen_in_training_are_named(baseline: Baseline) -> None:
    report = compare(
        baseline,
        fold(baseline, columns(2_000, seed=10, shift=500), np.ones(2_000, dtype=int)),
        window=window(1),
        rules=RULES,
    )
    assert report.features[0].unseen_share == 1.0
    assert report.features[0].level is Level.ALARM


def test_a_constant_feature_drifts_when_it_changes_and_only_then() -> None:
    baseline = make_baseline({"f": np.full(1_000, 3.0)})
    levels = []
    for value in (3.0, 4.0):
        counts = fold(baseline, {"f": np.full(600, value)}, np.ones(600, dtype=int))
        levels.append(compare(baseline, counts, window=window(1), rules=RULES).features[0].level)
    assert levels == [Level.OK, Level.ALARM]


def test_a_report_survives_json(at: Callable[..., DriftReport]) -> None:
    report = at(1, 4.0)
    assert from_json(to_json(report), DriftReport) == report


def test_a_feature_without_a_column_is_refused_with_the_columns_there_are(baseline: Baseline) -> None:
    with pytest.raises(TelemetryError, match=r"f7.*got columns f0, f1"):
        fold(Baseline(rows=baseline.rows, features=baseline.features[7:]), columns(10, seed=1, features=2), [10])


def test_a_request_of_many_rows_alone_is_no_evidence(baseline: Baseline) -> None:
    counts: WindowCounts = fold(baseline, columns(600, seed=11, shift=4), [600])
    report = compare(baseline, counts, window=window(1), rules=RULES)
    assert report.verdict is Verdict.OK
