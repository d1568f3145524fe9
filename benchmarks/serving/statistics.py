"""From request times to numbers, and the search for the highest rate; pure.

Latency of an open loop runs from the time a request was *due*; an unanswered or refused request counts as infinitely
late. A stall of the host falls on one or two short slices, so the median of the slices' p90 hardly notices it, while a
server above its capacity falls behind in more slices the longer it is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import median

import numpy as np

from serving.protocol.tensors import Array

GROWTH = 1.5
"""While no rate was too high, the next one is so many times the last."""

TOLERANCE = 1.05
"""The search ends when the lowest rate that failed is at most so many times the highest below it that passed."""

MOST_PROBES = 10
_DECIDES, _REPORTED = 90, 99


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Quantiles in ms; infinite where too many requests were not answered."""

    p50_ms: float
    p90_ms: float
    p99_ms: float

    @classmethod
    def of(cls, latency_s: Array) -> Latency:
        """Summarise at least one latency in seconds; a quantile is the smallest value that enough are not above."""
        quantiles = np.percentile(latency_s, (50, _DECIDES, _REPORTED), method="inverted_cdf") * 1e3
        return cls(p50_ms=float(quantiles[0]), p90_ms=float(quantiles[1]), p99_ms=float(quantiles[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One rate that was tried: medians over slices of the p90 and the p99, and how many slices there were."""

    rate: float
    p90_ms: float
    p99_ms: float
    slices: int

    def passed(self, budget_ms: float) -> bool:
        """Whether the p90 stayed within the budget."""
        return self.p90_ms <= budget_ms


def probe_of(rate: float, due_s: Array, latency_s: Array, *, slice_s: float, skip_s: float) -> Probe:
    """Cut a run into slices by due time, leave out the first `skip_s`, and take medians over the slices.

    Slices in which nothing was due are left out; a run with none counts as too slow.
    """
    index = np.floor((due_s - skip_s) / slice_s).astype(int)
    slices = [Latency.of(latency_s[index == each]) for each in np.unique(index[index >= 0])]
    return Probe(
        rate=rate,
        p90_ms=median(each.p90_ms for each in slices) if slices else inf,
        p99_ms=median(each.p99_ms for each in slices) if slices else inf,
        slices=len(slices),
    )


def next_rate(probes: Sequence[Probe], *, first: float, budget_ms: float) -> float | None:
    """Give the rate to try next, or None when the search is over.

    Grows from `first` until a rate fails (or shrinks until one passes), then halves the gap on a log scale.
    """
    if not probes:
        return first
    if len(probes) >= MOST_PROBES:
        return None
    below, above = _bracket(probes, budget_ms)
    if above is None:
        return max(probe.rate for probe in probes) * GROWTH
    if below is None:
        return above / GROWTH
    return sqrt(below * above) if above > below * TOLERANCE else None


def highest(probes: Sequence[Probe], *, budget_ms: float) -> Probe | None:
    """Give the probe of the highest rate that passed with none failing below it; None when none did."""
    below, _ = _bracket(probes, budget_ms)
    return next((probe for probe in probes if probe.rate == below), None)


def _bracket(probes: Sequence[Probe], budget_ms: float) -> tuple[float | None, float | None]:
    failed = [probe.rate for probe in probes if not probe.passed(budget_ms)]
    above = min(failed, default=None)
    passed = [probe.rate for probe in probes if probe.passed(budget_ms) and (above is None or probe.rate < above)]
    return max(passed, default=None), above


def goodput(due_s: Array, latency_s: Array, *, within_s: float, skip_s: float) -> float:
    """Give the answers within a bound a second, over the requests due after `skip_s`."""
    if not len(due_s) or due_s.max() <= skip_s:
        return 0.0
    counted = due_s >= skip_s
    return float((latency_s[counted] <= within_s).sum() / (due_s.max() - skip_s))
