"""Latency runs from when a request was due; a stall does not decide; the search finds the highest rate that holds."""

from __future__ import annotations

from math import inf, isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.serving.statistics import (
    MOST_PROBES,
    TOLERANCE,
    Latency,
    Probe,
    goodput,
    highest,
    next_rate,
    probe_of,
)

BUDGET_MS = 12.0


def probe(rate: float, p90_ms: float) -> Probe:
    return Probe(rate=rate, p90_ms=p90_ms, p99_ms=p90_ms, slices=20)


def searched(capacity: float, first: float) -> list[Probe]:
    """Run the search against a server that holds the budget up to its capacity."""
    probes: list[Probe] = []
    while (rate := next_rate(probes, first=first, budget_ms=BUDGET_MS)) is not None:
        probes.append(probe(rate, 1.0 if rate <= capacity else 100.0))
    return probes


def test_a_quantile_is_the_smallest_latency_that_so_many_are_not_above() -> None:
    latency = Latency.of(np.arange(1, 101) / 1e3)
    assert (latency.p50_ms, latency.p90_ms, latency.p99_ms) == pytest.approx((50, 90, 99))


def test_a_tenth_of_unanswered_requests_spares_the_p90_and_one_more_does_not() -> None:
    answered = np.full(90, 0.001)
    assert Latency.of(np.append(answered, np.full(10, inf))).p90_ms == pytest.approx(1.0)
    assert Latency.of(np.append(answered[:-1], np.full(11, inf))).p90_ms == inf


@pytest.mark.parametrize(("stalled", "p90_ms"), [(0, 1.0), (9, 1.0), (11, 300.0)])
def test_slices_in_a_stall_decide_only_when_they_are_most(stalled: int, p90_ms: float) -> None:
    due_s = np.arange(0, 2.2, 0.001)
    latency_s = np.full(len(due_s), 0.001)
    for index in range(stalled):
        latency_s[np.floor((due_s - 0.2) / 0.1 + 1e-9) == index] = 0.3
    found = probe_of(1000, due_s + 1e-6, latency_s, slice_s=0.1, skip_s=0.2)
    assert found.slices == 20
    assert found.p90_ms == pytest.approx(p90_ms)


def test_the_warm_up_is_left_out() -> None:
    due_s = np.array([0.05, 0.15, 0.25, 0.35])
    latency_s = np.array([9.0, 9.0, 0.002, 0.002])
    assert probe_of(10, due_s, latency_s, slice_s=0.1, skip_s=0.2).p90_ms == pytest.approx(2.0)


def test_a_run_in_which_nothing_was_due_is_too_slow() -> None:
    assert not probe_of(1, np.array([]), np.array([]), slice_s=0.1, skip_s=0.2).passed(BUDGET_MS)


@given(capacity=st.floats(10, 1e6), share=st.floats(0.2, 3.0))
def test_the_search_ends_within_five_percent_below_the_capacity(capacity: float, share: float) -> None:
    probes = searched(capacity, capacity * share)
    found = highest(probes, budget_ms=BUDGET_MS)
    assert found is not None
    assert capacity / TOLERANCE * (1 - 1e-9) <= found.rate <= capacity
    assert len(probes) <= MOST_PROBES


@given(outcomes=st.lists(st.booleans(), max_size=MOST_PROBES), first=st.floats(1, 1e5))
def test_the_search_never_asks_the_same_rate_twice_and_always_ends(outcomes: list[bool], first: float) -> None:
    probes: list[Probe] = []
    for passed in outcomes:
        rate = next_rate(probes, first=first, budget_ms=BUDGET_MS)
        if rate is None:
            break
        assert all(not isclose(rate, each.rate, rel_tol=1e-6) for each in probes)
        probes.append(probe(rate, 1.0 if passed else inf))
    assert next_rate([probe(1.0 + index, 1.0) for index in range(MOST_PROBES)], first=1, budget_ms=BUDGET_MS) is None


def test_a_rate_that_passed_above_one_that_failed_is_luck() -> None:
    probes = [probe(100, 1), probe(200, 50), probe(300, 1)]
    found = highest(probes, budget_ms=BUDGET_MS)
    assert found is not None
    assert found.rate == 100


def test_no_rate_is_the_highest_where_none_passed() -> None:
    assert highest([probe(100, 50), probe(66, 50)], budget_ms=BUDGET_MS) is None
    assert highest([], budget_ms=BUDGET_MS) is None


def test_goodput_counts_answers_in_time_a_second_after_the_warm_up() -> None:
    due_s = np.arange(1, 201) / 100  # to 2.0 s
    latency_s = np.where(np.arange(200) % 2 == 0, 0.05, inf)
    assert goodput(due_s, latency_s, within_s=0.1, skip_s=1.0) == pytest.approx(50, rel=0.03)
    assert goodput(due_s, latency_s, within_s=0.01, skip_s=1.0) == 0
    assert goodput(np.array([]), np.array([]), within_s=1, skip_s=0) == 0
