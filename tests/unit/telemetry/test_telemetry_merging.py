"""Histograms, evidence and baselines: within their error, and adding parts is taking all at once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.errors import TelemetryError
from serving.telemetry.baseline import MAX_BINS, baseline_from_dict, make_baseline
from serving.telemetry.evidence import UNIT_BUCKETS, Evidence
from serving.telemetry.histogram import MAX_MS, MIN_MS, RELATIVE_ERROR, Histogram, bucket_of, upper_edge_ms

latencies = st.lists(st.floats(MIN_MS, MAX_MS), min_size=1, max_size=200)


@given(latencies, st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_within_1_percent_of_the_exact_one(values: list[float], q: float) -> None:
    exact = sorted(values)[max(0, math.ceil(q * len(values) - 1e-9) - 1)]
    assert Histogram.of(values).quantile_ms(q) == pytest.approx(exact, rel=RELATIVE_ERROR + 1e-6)


@given(latencies, latencies)
def test_adding_histograms_is_counting_all_at_once(left: list[float], right: list[float]) -> None:
    assert Histogram.of(left).merge(Histogram.of(right)) == Histogram.of(left + right)


@given(st.floats(MIN_MS, MAX_MS))
def test_a_value_lies_in_its_bucket(value: float) -> None:
    bucket = bucket_of(value)
    assert upper_edge_ms(bucket - 1) * (1 - 1e-9) <= value <= upper_edge_ms(bucket) * (1 + 1e-9)


def test_what_is_above_a_bucket_is_all_that_is_slower() -> None:
    random = np.random.default_rng(0)
    values = np.exp(random.standard_normal(10_000))
    bucket = bucket_of(3.0)
    assert Histogram.of(values.tolist()).above(bucket) == (values > upper_edge_ms(bucket)).sum()


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_latencies_below_a_microsecond_count_as_one(value: float) -> None:
    assert bucket_of(value) == bucket_of(MIN_MS)


def test_a_latency_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="nan"):
        bucket_of(math.nan)


@pytest.mark.parametrize(
    ("histogram", "q"), [(Histogram(), 0.5), (Histogram.of([1.0]), 0.0), (Histogram.of([1.0]), 1.1)]
)
def test_there_is_no_quantile_of_nothing_or_outside_of_all(histogram: Histogram, q: float) -> None:
    with pytest.raises(ValueError, match="quantile"):
        histogram.quantile_bucket(q)


def test_evidence_adds_by_bucket() -> None:
    def one(bucket: int) -> Evidence:
        counts = tuple(int(index == bucket) for index in range(UNIT_BUCKETS))
        return Evidence(impressions=counts, clicks=counts, latency=Histogram.of([float(bucket + 1)]))

    both = one(3).merge(one(200)).merge(one(3))
    assert (both.total_impressions, both.total_clicks, both.total_errors, both.used_buckets) == (3, 3, 0, 2)
    assert (both.impressions[3], both.impressions[200], both.latency.total) == (2, 1, 3)


def test_evidence_of_another_number_of_buckets_is_refused() -> None:
    with pytest.raises(ValueError, match="clicks: got 3 buckets; allowed 256"):
        Evidence(clicks=(1, 2, 3))


def test_bins_of_a_baseline_hold_equal_parts_and_nothing_lies_outside() -> None:
    feature = make_baseline({"f": np.random.default_rng(1).gamma(2, 1, 10_000)}).features[0]
    assert (feature.counts[0], feature.counts[-1], feature.missing, feature.rows) == (0, 0, 0, 10_000)
    assert all(count == pytest.approx(1_000, abs=1) for count in feature.counts[1:-1])


def test_values_that_repeat_give_fewer_bins_and_missing_ones_their_own_count() -> None:
    feature = make_baseline({"f": [0.0] * 90 + [1.0] * 8 + [math.nan] * 2}).features[0]
    assert (sum(feature.counts), feature.missing) == (98, 2)
    assert [count for count in feature.counts if count] == [90, 8]


def test_a_baseline_survives_json() -> None:
    made = make_baseline({"f": np.arange(100), "g": np.ones(100)})
    assert baseline_from_dict(json.loads(json.dumps(made.to_dict()))) == made


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: make_baseline({}), "lengths"),
        (lambda: make_baseline({"f": [1, 2], "g": [1]}), r"lengths \[1, 2\]"),
        (lambda: make_baseline({"f": [math.nan]}), "no finite value"),
        (lambda: make_baseline({"f": [1, 2]}, bins=1), "bins: got 1"),
        (lambda: make_baseline({"f": [1, 2]}, bins=MAX_BINS + 1), "bins: got 101"),
        (lambda: baseline_from_dict({"rows": 1}), "features"),
        (lambda: baseline_from_dict(_document(edges=[1.0, 1.0], counts=[0, 1, 0])), "ascend"),
        (lambda: baseline_from_dict(_document(edges=[0.0, 1.0], counts=[0, 1])), "2 counts of 1 rows"),
        (lambda: baseline_from_dict(_document(edges=[0.0, 1.0], counts=[0, 5, 0])), "3 counts of 5 rows"),
        (lambda: baseline_from_dict(_document(edges=[float(i) for i in range(200)], counts=[0])), "200 edges"),
    ],
)
def test_what_is_no_baseline_is_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(TelemetryError, match=said):
        make()


def _document(*, edges: list[float], counts: list[int]) -> dict[str, object]:
    return {"rows": 1, "features": [{"name": "f", "edges": edges, "counts": counts, "missing": 0}]}
