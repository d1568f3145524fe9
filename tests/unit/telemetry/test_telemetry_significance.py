"""Chance and size against scipy and worked examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from serving.telemetry.significance import (
    chance_index,
    chi_square_tail,
    discoveries,
    homogeneity,
    pool_rare,
    stability_index,
)

TENTHS = np.full(10, 0.1)
MOVED = np.array([0.12, 0.11, *[0.1] * 6, 0.09, 0.08])


@given(statistic=st.floats(1e-3, 600), degrees=st.integers(1, 40))
def test_the_tail_of_the_chi_square_is_scipys(statistic: float, degrees: int) -> None:
    assert chi_square_tail(statistic, degrees) == pytest.approx(stats.chi2.sf(statistic, degrees), rel=1e-9, abs=1e-300)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 900), st.integers(1, 900)), min_size=2, max_size=15))
def test_two_rows_of_counts_are_compared_as_by_scipy(pairs: list[tuple[int, int]]) -> None:
    table = np.array(pairs, dtype=np.float64).T
    oracle = stats.chi2_contingency(table, correction=False)
    statistic, p_value = homogeneity(table[0], table[1])
    assert statistic == pytest.approx(oracle.statistic, rel=1e-9, abs=1e-9)
    assert p_value == pytest.approx(oracle.pvalue, rel=1e-6, abs=1e-12)


def test_the_worked_example_is_significant_and_far_below_any_size_that_matters() -> None:
    reference, current = TENTHS * 100_000, MOVED * 20_000
    assert stability_index(reference, current) == pytest.approx(0.010116, abs=1e-6)
    assert chance_index(10, 100_000, 20_000) == pytest.approx(0.00054, abs=1e-6)
    index = stability_index(reference, current)
    assert stats.chi2.sf(index / (1 / 20_000 + 1 / 100_000), 9) == pytest.approx(1.2e-31, rel=0.05)
    assert homogeneity(reference, current)[1] < 1e-28


def test_the_same_shares_in_few_rows_are_chance() -> None:
    reference, current = TENTHS * 100_000, MOVED * 500
    assert chance_index(10, 100_000, 500) == pytest.approx(0.01809, abs=1e-5)
    assert homogeneity(reference, current)[1] == pytest.approx(0.83, abs=0.02)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([0.01, 0.05, 0.2]))
def test_discoveries_are_those_of_scipys_adjusted_p_values(p_values: list[float], rate: float) -> None:
    adjusted = stats.false_discovery_control(p_values, method="bh")
    clear = np.abs(adjusted - rate) > 1e-12
    found = np.array(discoveries(p_values, rate=rate))
    assert (found[clear] == (adjusted <= rate)[clear]).all()


def test_one_odd_row_is_no_event() -> None:
    reference, current = np.array([0.0, 9_990, 10_010]), np.array([1.0, 250, 249])
    assert homogeneity(reference, current)[1] < 1e-4
    assert homogeneity(*pool_rare(reference, current))[1] > 0.5


def test_pooling_loses_no_row() -> None:
    reference, current = np.array([3.0, 9_990, 10_010, 0, 1]), np.array([1.0, 250, 249, 0, 4])
    pooled = pool_rare(reference, current)
    assert [side.sum() for side in pooled] == [reference.sum(), current.sum()]


def test_rows_outside_of_everything_seen_are_still_compared() -> None:
    reference, current = np.array([0.0, 20_000, 0]), np.array([0.0, 0, 500])
    pooled = pool_rare(reference, current)
    assert homogeneity(*pooled)[1] < 1e-100
    assert stability_index(*pooled) > 1
