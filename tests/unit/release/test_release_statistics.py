"""Numbers of the release engine against worked examples, scipy and numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from serving.release.statistics import (
    Estimate,
    binomial,
    compare_p99,
    design_effect,
    half_width,
    interval,
    ratio_of_sums,
    relative_uplift,
    sample_size,
    srm_bayes_factor,
)
from serving.telemetry.histogram import Histogram


def _share(successes: int, trials: int) -> Estimate:
    rate = successes / trials
    return Estimate(rate, rate * (1 - rate) / trials)


def test_the_worked_example_of_an_uplift_and_its_bounds() -> None:
    uplift = relative_uplift(_share(15_450, 300_000), _share(135_000, 2_700_000))
    assert uplift.value == pytest.approx(0.03, abs=1e-12)
    assert math.sqrt(uplift.variance) == pytest.approx(0.0085203, rel=1e-4)
    bounds = interval(uplift, tau=0.02, alpha=0.05)
    assert (bounds.lower, bounds.upper) == pytest.approx((0.0062879, 0.0537121), abs=1e-6)
    assert uplift.value + half_width(uplift.variance, tau=0.02, alpha=0.05, sides=2) == pytest.approx(
        0.0559726, abs=1e-6
    )


@pytest.mark.parametrize(("observed", "factor"), [((90_500, 9_500), 1.1731e5), ((90_020, 9_980), 0.1017)])
def test_the_worked_examples_of_a_split(observed: tuple[int, int], factor: float) -> None:
    assert srm_bayes_factor(observed, (0.9, 0.1), prior=1000) == pytest.approx(factor, rel=1e-3)


@pytest.mark.parametrize(
    ("share", "sides", "power", "millions"),
    [
        (0.10, 2, 0.8, 4.21),
        (0.10, 1, 0.8, 3.32),
        (0.10, 1, 0.9, 4.60),
        (0.25, 2, 0.8, 2.02),
        (0.50, 2, 0.8, 1.51),
        (0.50, 1, 0.8, 1.19),
        (0.50, 1, 0.9, 1.64),
    ],
)
def test_sample_sizes_at_a_base_of_5_percent_and_an_uplift_of_2(
    share: float, sides: int, power: float, millions: float
) -> None:
    needed = sample_size(0.05, 0.02, share=share, alpha=0.05, power=power, sides=sides)
    assert needed / 1e6 == pytest.approx(millions, abs=0.006)


@pytest.mark.parametrize(("true", "millions"), [(0.025, 53.5), (0.03, 13.4), (0.04, 3.39), (0.05, 1.52), (0.08, 0.39)])
def test_sample_sizes_to_show_at_least_2_percent(true: float, millions: float) -> None:
    needed = sample_size(0.05, true, share=0.1, alpha=0.05, power=0.8, null=0.02)
    assert needed / 1e6 == pytest.approx(millions, rel=0.01)


def test_a_ratio_over_buckets_has_the_variance_of_the_delta_method() -> None:
    random = np.random.default_rng(1)
    shown = random.poisson(400, 256).astype(float)
    clicked = random.binomial(shown.astype(int), random.beta(5, 95, 256)).astype(float)
    found = ratio_of_sums(clicked.tolist(), shown.tolist())
    rate = clicked.sum() / shown.sum()
    by_hand = ((clicked - rate * shown) ** 2).sum() / (255 * 256 * shown.mean() ** 2)
    assert (found.value, found.variance) == pytest.approx((rate, by_hand), rel=1e-12)


def test_a_share_of_no_failures_is_not_certain() -> None:
    assert binomial(0, 10).value == 0
    assert binomial(0, 10).variance > 0


def test_a_bound_read_at_every_look_is_crossed_in_at_most_alpha_of_runs_without_effect() -> None:
    random = np.random.default_rng(2)
    looks = np.arange(1, 301) * 20_000  # impressions of the challenger at 50/50
    per_look = 0.05 * 0.95 / 0.05**2 * 2 / 20_000  # variance of the uplift of one look's rows
    crossed = 0
    for _ in range(400):
        sums = np.cumsum(random.standard_normal(looks.size)) * math.sqrt(per_look)
        count = np.arange(1, looks.size + 1)
        crossed += any(
            interval(Estimate(total / n, per_look / n), tau=0.02, alpha=0.05).lower > 0
            for total, n in zip(sums.tolist(), count.tolist(), strict=True)
        )
    assert crossed / 400 <= 0.05


def test_requests_of_one_unit_widen_the_split_as_their_number() -> None:
    random = np.random.default_rng(3)
    ours, theirs = (4 * random.poisson(250, 256) for _ in range(2))
    assert design_effect(ours.tolist(), theirs.tolist()) == pytest.approx(4, rel=0.35)


def test_independent_requests_have_a_design_effect_near_1() -> None:
    random = np.random.default_rng(4)
    total = np.full(256, 2000)
    ours = random.binomial(total, 0.1)
    assert design_effect(ours.tolist(), (total - ours).tolist()) == pytest.approx(1, abs=0.25)


def test_the_split_alarm_agrees_with_chi_square_on_what_is_far_out() -> None:
    for observed in ((90_500, 9_500), (90_020, 9_980), (50_000, 50_600)):
        expected = (0.9, 0.1) if observed[1] < 20_000 else (0.5, 0.5)
        total = sum(observed)
        p = stats.chisquare(observed, [share * total for share in expected]).pvalue
        assert (srm_bayes_factor(observed, expected, prior=1000) >= 100) == (p < 1e-5)


def test_p99s_are_compared_by_the_shares_above_them() -> None:
    random = np.random.default_rng(5)
    control = np.exp(random.standard_normal(40_000) * 0.5 + 2)
    same = np.exp(random.standard_normal(40_000) * 0.5 + 2)
    verdicts = []
    for challenger in (same, same * 1.5):
        found = compare_p99(
            Histogram.of(challenger.tolist()), Histogram.of(control.tolist()), margin=0.1, tau=0.005, alpha=0.025
        )
        assert found.challenger_p99_ms == pytest.approx(np.quantile(challenger, 0.99), rel=0.02)
        assert found.control_p99_ms == pytest.approx(np.quantile(control, 0.99), rel=0.02)
        verdicts.append((found.excess.upper < 0, found.excess.lower > 0))
    assert verdicts == [(True, False), (False, True)]
