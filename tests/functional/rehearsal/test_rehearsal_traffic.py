"""Drawn traffic is what requests drawn one by one would be, and units go where the product sends them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from scipy import stats

from cli.rehearsal.scenario import CONTROL, SCENARIOS, Scenario
from cli.rehearsal.traffic import CLICK_RATE, Audience, Counters, Requests
from serving.prediction.assignment import assign
from serving.prediction.types import Traffic
from serving.spec import Slot
from serving.telemetry.evidence import Evidence

TRAFFIC = Traffic(production="a", challenger_share=0.5, release_id="r", stage_index=1, salt="s/r")
PEAK = datetime(2026, 1, 5, 20, tzinfo=UTC)


@pytest.fixture(name="audience", scope="module")
def audience_fixture() -> Audience:
    return Audience(seed=1)


def drawn(
    audience: Audience, truth: Scenario, *, intervals: int, qps: float = 1_000.0, seed: int = 1
) -> dict[Slot, Counters]:
    requests = Requests(seed, peak_qps=qps, p99_budget_ms=100.0)
    into: dict[Slot, Counters] = {"a": Counters(), "b": Counters()}
    for number in range(intervals):
        at = PEAK + timedelta(days=number)  # the same hour, so that intervals are alike
        requests.count(audience, TRAFFIC, {"a": CONTROL, "b": truth}, into, at=at, number=number, seconds=60.0)
    return into


def test_units_are_where_the_products_assignment_puts_them_and_a_ramp_moves_none_back(audience: Audience) -> None:
    before = np.zeros(256)
    for share in (0.0, 0.1, 0.5, 1.0):
        traffic = replace(TRAFFIC, challenger_share=share)
        asked, _ = audience.shares(traffic)["b"]
        used = {assign(traffic, f"unit_{index:06d}").unit_bucket for index in range(200)}
        assert asked.sum() == pytest.approx(share, abs=0.02)
        assert (asked >= before - 1e-12).all()
        assert len(used) > 100
        before = asked


def test_both_slots_together_are_all_requests(audience: Audience) -> None:
    found = audience.shares(TRAFFIC)
    assert found["a"][0].sum() + found["b"][0].sum() == pytest.approx(1.0)
    clicks = found["a"][1].sum() + found["b"][1].sum()
    assert clicks == pytest.approx(CLICK_RATE, rel=0.02)


def test_requests_of_an_interval_scatter_as_a_poisson_stream_does(audience: Audience) -> None:
    totals = [drawn(audience, CONTROL, intervals=1, seed=seed)["a"].impressions.sum() for seed in range(200)]
    index = np.var(totals, ddof=1) / np.mean(totals) * (len(totals) - 1)
    low, high = stats.chi2.ppf([0.0005, 0.9995], len(totals) - 1)
    assert low < index < high


def test_clicks_and_failures_come_at_their_true_rates(audience: Audience) -> None:
    truth = SCENARIOS["broken"]
    counted = drawn(audience, truth, intervals=50)
    requests, clicks = audience.shares(TRAFFIC)["b"]
    seen = counted["b"].impressions.sum()
    willing = 0.9 + 0.1 * (1 + np.cos(2 * np.pi / 24)) / 2  # one hour before its peak
    liked = clicks.sum() / requests.sum() * willing * 1.05 * (1 + truth.uplift) * (1 - truth.error_rate)
    assert counted["b"].errors.sum() / seen == pytest.approx(truth.error_rate, abs=5 * (0.05 / seen) ** 0.5)
    assert counted["b"].clicks.sum() / seen == pytest.approx(liked, abs=5 * (0.05 / seen) ** 0.5)


def test_latencies_are_lognormal_with_the_p99_that_is_asked_for(audience: Audience) -> None:
    for truth in (CONTROL, SCENARIOS["slow"]):
        evidence: Evidence = drawn(audience, truth, intervals=20)["b"].evidence()
        assert evidence.latency.quantile_ms(0.99) == pytest.approx(70.0 * truth.slowness, rel=0.03)
        median = 70.0 * truth.slowness / np.exp(0.35 * stats.norm.ppf(0.99))
        assert evidence.latency.quantile_ms(0.5) == pytest.approx(median, rel=0.03)
        assert evidence.latency.total == evidence.total_impressions


def test_an_interval_is_the_same_whichever_was_drawn_before_it(audience: Audience) -> None:
    requests = Requests(3, peak_qps=100.0, p99_budget_ms=100.0)
    seen = []
    for order in ((4, 5), (5, 4)):
        found = {}
        for number in order:
            into: dict[Slot, Counters] = {"a": Counters(), "b": Counters()}
            requests.count(audience, TRAFFIC, {"a": CONTROL, "b": CONTROL}, into, at=PEAK, number=number, seconds=60.0)
            found[number] = into["b"].evidence()
        seen.append(found)
    assert seen[0] == seen[1]
    assert seen[0][4] != seen[0][5]


def test_counters_go_on_from_what_was_kept(audience: Audience) -> None:
    counted = drawn(audience, CONTROL, intervals=2)["a"].evidence()
    assert Counters.of(counted).evidence() == counted
