"""The statistics of a release, in standard-library Python: estimates, bounds that may be read at any time, sizes.

Sources: delta method over unit buckets: Deng, Knoblich, Lu 2018, arXiv 1803.06336; normal-mixture confidence
sequence: Waudby-Smith et al. 2021, arXiv 2103.06476 (as in GrowthBook's gbstats); sequential sample-ratio test:
Lindon & Malek 2020, arXiv 2011.03567.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from serving.telemetry.histogram import GROWTH, Histogram

P99 = 0.99


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the variance of its estimate."""

    value: float
    variance: float


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate between two one-sided always-valid bounds, each of them at alpha."""

    estimate: float
    lower: float
    upper: float


def ratio_of_sums(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """Give sum/sum over independent buckets, with the delta method's variance.

    Raises:
        ValueError: fewer than two buckets hold anything; a variance needs two.

    """
    used = [(top, bottom) for top, bottom in zip(numerators, denominators, strict=True) if bottom > 0]
    count, total = len(used), math.fsum(bottom for _, bottom in used)
    if count < 2:  # noqa: PLR2004 - a variance needs two
        raise ValueError(f"ratio: got {count} buckets in use; allowed 2 or more")
    ratio = math.fsum(top for top, _ in used) / total
    squares = math.fsum((top - ratio * bottom) ** 2 for top, bottom in used)
    return Estimate(ratio, squares * count / ((count - 1) * total * total))


def binomial(successes: int, trials: int) -> Estimate:
    """Give a share and its variance; half a success and half a failure are added for the variance alone.

    Without them no failure in ten requests would read as certainty.
    """
    smoothed = (successes + 0.5) / (trials + 1)
    return Estimate(successes / trials, smoothed * (1 - smoothed) / trials)


def relative_uplift(challenger: Estimate, control: Estimate) -> Estimate:
    """Give challenger/control - 1 with its first-order variance.

    Raises:
        ValueError: the control's rate is not above 0, so nothing is relative to it.

    """
    if control.value <= 0:
        raise ValueError(f"uplift: got a control rate of {control.value}; allowed above 0")
    base = control.value
    variance = challenger.variance / base**2 + challenger.value**2 * control.variance / base**4
    return Estimate(challenger.value / base - 1, variance)


def difference(challenger: Estimate, control: Estimate) -> Estimate:
    """Give challenger - control of two independent estimates."""
    return Estimate(challenger.value - control.value, challenger.variance + control.variance)


def half_width(variance: float, *, tau: float, alpha: float, sides: int = 1) -> float:
    """Give how far an always-valid bound lies from the estimate, however often it is read.

    Args:
        variance: of the estimate now.
        tau: the effect the bound is tightest for; fixed before the first look.
        alpha: chance, over all looks together, that a one-sided bound is ever crossed by no effect.
        sides: 1 or 2.

    """
    if variance <= 0:
        return 0.0
    spread = variance + tau * tau
    growth = math.sqrt(spread / variance)
    inside = 1 + growth / (2 * alpha) if sides == 1 else growth / alpha
    return math.sqrt(2 * variance * spread / (tau * tau) * math.log(inside))


def interval(estimate: Estimate, *, tau: float, alpha: float) -> Interval:
    """Give both one-sided bounds."""
    width = half_width(estimate.variance, tau=tau, alpha=alpha)
    return Interval(estimate.value, estimate.value - width, estimate.value + width)


def sample_size(
    base: float, uplift: float, *, share: float, alpha: float, power: float, null: float = 0.0, sides: int = 1
) -> float:
    """Give the impressions of both arms together that a fixed-size test needs, at design effect 1.

    Args:
        base: the control's rate.
        uplift: the true relative uplift to be found.
        share: the challenger's share of traffic.
        alpha: type-I error.
        power: chance to find it.
        null: relative uplift under the null (0: any; 0.02: at least 2%; negative: non-inferiority).
        sides: 1 or 2.

    """
    z = NormalDist().inv_cdf(1 - alpha / sides) + NormalDist().inv_cdf(power)
    rate = base * (1 + uplift)
    spread = rate * (1 - rate) / share + (1 + null) ** 2 * base * (1 - base) / (1 - share)
    return z * z * spread / (base * (uplift - null)) ** 2


def srm_bayes_factor(observed: Sequence[float], expected: Sequence[float], *, prior: float) -> float:
    """Give how much more likely the counts are under another split than under the expected one.

    May be read at any time: under the expected split it ever exceeds x with chance at most 1/x.

    Args:
        observed: counts, one an arm.
        expected: shares that sum to 1, one an arm.
        prior: weight of the Dirichlet prior around the expected split.

    """
    total = math.fsum(observed)
    log = math.lgamma(prior) - math.lgamma(prior + total)
    for count, share in zip(observed, expected, strict=True):
        log += math.lgamma(prior * share + count) - math.lgamma(prior * share) - count * math.log(share)
    return math.exp(min(log, 700.0))


def design_effect(challenger: Sequence[int], control: Sequence[int]) -> float:
    """Give by how much requests of one unit hanging together widen the split's variance; at least 1.

    Rao & Scott 1981: counts divided by it may be tested as if they were independent.
    """
    totals = [ours + theirs for ours, theirs in zip(challenger, control, strict=True)]
    share = ratio_of_sums(challenger, totals)
    independent = share.value * (1 - share.value) / sum(totals)
    return max(1.0, share.variance / independent) if independent > 0 else 1.0


@dataclass(frozen=True, slots=True)
class TailComparison:
    """Both p99s in ms, and by how much more of the challenger than of the control lies above its limit."""

    control_p99_ms: float
    challenger_p99_ms: float
    excess: Interval


def compare_p99(
    challenger: Histogram, control: Histogram, *, margin: float, tau: float, alpha: float
) -> TailComparison:
    """Compare the challenger's share above (1 + margin) p99 of the control with the control's above its p99.

    An upper bound of the excess below 0 says that the p99 is no worse than the margin allows; a lower bound above 0
    says that it is worse. A limit inside a bucket counts the whole bucket against the challenger.

    Raises:
        ValueError: a histogram is empty.

    """
    at = control.quantile_bucket(P99)
    limit = at + math.floor(math.log1p(margin) / math.log(GROWTH))
    excess = difference(binomial(challenger.above(limit), challenger.total), binomial(control.above(at), control.total))
    return TailComparison(control.quantile_ms(P99), challenger.quantile_ms(P99), interval(excess, tau=tau, alpha=alpha))
