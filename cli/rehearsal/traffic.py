"""Traffic of a rehearsal: units with their own tastes, put into slots by the product's own assignment.

Requests of a unit are a Poisson stream and each is clicked with the unit's own probability, so the counts of one
bucket of units are Poisson too, with the sums of their units as means: drawn by bucket they are what 10^9 requests
drawn one by one would be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from cli.rehearsal.scenario import Scenario
from serving.prediction.assignment import assign, challenger_buckets
from serving.prediction.types import Traffic
from serving.spec import SLOTS, Slot
from serving.telemetry.evidence import UNIT_BUCKETS, Evidence
from serving.telemetry.histogram import Histogram, bucket_of, upper_edge_ms

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

UNITS = 100_000
CLICK_RATE = 0.05
_TASTES = 40.0
"""Concentration of the beta distribution of units' click rates: their coefficient of variation is 0.68."""
_ACTIVITY_SIGMA = 0.8
_SPREAD = 0.35
"""Sigma of the lognormal latencies: the p99 is 2.3 times the median."""
_P99_OF_BUDGET = 0.7
_AUDIENCE, _REQUESTS = 0, 1
"""Which stream of the seed."""


@dataclass(slots=True)
class Counters:
    """What one slot saw in one stage, as it is counted."""

    impressions: Counts = field(default_factory=lambda: np.zeros(UNIT_BUCKETS, dtype=np.int64))
    clicks: Counts = field(default_factory=lambda: np.zeros(UNIT_BUCKETS, dtype=np.int64))
    errors: Counts = field(default_factory=lambda: np.zeros(UNIT_BUCKETS, dtype=np.int64))
    latency: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, evidence: Evidence) -> Counters:
        """Give counters that go on from evidence."""
        return cls(
            impressions=np.array(evidence.impressions, dtype=np.int64),
            clicks=np.array(evidence.clicks, dtype=np.int64),
            errors=np.array(evidence.errors, dtype=np.int64),
            latency=dict(evidence.latency.buckets),
        )

    def evidence(self) -> Evidence:
        """Give what was counted so far."""
        return Evidence(
            impressions=tuple(self.impressions.tolist()),
            clicks=tuple(self.clicks.tolist()),
            errors=tuple(self.errors.tolist()),
            latency=Histogram.from_counts(self.latency),
        )


class Audience:
    """Everybody who asks; the same seed gives the same units."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, _AUDIENCE])
        activity = rng.lognormal(0.0, _ACTIVITY_SIGMA, UNITS)
        self._activity: Floats = activity / activity.sum()
        self._taste: Floats = rng.beta(CLICK_RATE * _TASTES, (1 - CLICK_RATE) * _TASTES, UNITS)

    def shares(self, traffic: Traffic) -> dict[Slot, tuple[Floats, Floats]]:
        """Give each slot's part of all requests and of all clicks, by bucket of units, shape (256,) each."""
        split, unit_bucket = _buckets_of(traffic.salt)
        challenger = split < challenger_buckets(traffic.challenger_share)
        other = SLOTS[1 - SLOTS.index(traffic.production)]

        def summed(weights: Floats) -> Floats:
            return np.bincount(unit_bucket, weights=weights, minlength=UNIT_BUCKETS).astype(np.float64)

        asked = {traffic.production: self._activity * ~challenger, other: self._activity * challenger}
        return {slot: (summed(share), summed(share * self._taste)) for slot, share in asked.items()}


class Requests:
    """Draws what happens in one interval; each interval has a stream of its own, so any may be drawn first."""

    def __init__(self, seed: int, *, peak_qps: float, p99_budget_ms: float) -> None:
        self._seed = seed
        self._peak_qps = peak_qps
        self._p99_ms = p99_budget_ms * _P99_OF_BUDGET
        self._latencies: dict[float, tuple[int, Floats]] = {}
        self._parts: tuple[Traffic | None, dict[Slot, tuple[Floats, Floats]]] = (None, {})

    def count(
        self,
        audience: Audience,
        traffic: Traffic,
        truths: Mapping[Slot, Scenario],
        into: Mapping[Slot, Counters],
        *,
        at: datetime,
        number: int,
        seconds: float,
    ) -> None:
        """Draw the requests of interval `number`, which ends at `at` and lasts `seconds`, and count them."""
        rng = np.random.default_rng([self._seed, _REQUESTS, number])
        asked = self._peak_qps * _curve(at, peak_hour=20, low=0.1) * seconds
        willing = _curve(at, peak_hour=21, low=0.9) * 1.05
        if self._parts[0] != traffic:
            self._parts = (traffic, audience.shares(traffic))
        for slot in SLOTS:
            requests, clicks = self._parts[1][slot]
            truth = truths[slot]
            served = asked * requests * (1 - truth.error_rate)
            liked = np.minimum(asked * clicks * willing * (1 + truth.uplift) * (1 - truth.error_rate), served)
            clicked, passed = rng.poisson(liked), rng.poisson(served - liked)
            failed = rng.poisson(asked * requests * truth.error_rate)
            counters = into[slot]
            counters.clicks += clicked
            counters.errors += failed
            counters.impressions += clicked + passed + failed
            self._count_latencies(rng, counters, truth.slowness, int((clicked + passed + failed).sum()))

    def _count_latencies(self, rng: np.random.Generator, counters: Counters, slowness: float, total: int) -> None:
        if slowness not in self._latencies:
            self._latencies[slowness] = _lognormal(self._p99_ms * slowness)
        first, chances = self._latencies[slowness]
        for offset, count in enumerate(rng.multinomial(total, chances).tolist()):
            if count:
                counters.latency[first + offset] = counters.latency.get(first + offset, 0) + count


@lru_cache(maxsize=4)
def _buckets_of(salt: str) -> tuple[Counts, Counts]:
    """Give each unit's bucket of the split and its bucket of the variance; only the salt moves a unit."""
    traffic = replace(Traffic.without_release(""), salt=salt)
    puts = [assign(traffic, f"unit_{index:06d}") for index in range(UNITS)]
    split, unit_buckets = [put.bucket for put in puts], [put.unit_bucket for put in puts]
    return np.array(split, dtype=np.int64), np.array(unit_buckets, dtype=np.int64)


def _curve(at: datetime, *, peak_hour: float, low: float) -> float:
    """Give a day's curve: 1 at its peak, `low` twelve hours later."""
    hour = at.hour + at.minute / 60
    return low + (1 - low) * (1 + math.cos(2 * math.pi * (hour - peak_hour) / 24)) / 2


def _lognormal(p99_ms: float) -> tuple[int, Floats]:
    """Give the first bucket of a histogram of such latencies, and the chance of it and of those behind it."""
    middle = math.log(p99_ms) - 2.3263 * _SPREAD
    first, last = (bucket_of(math.exp(middle + side * 6 * _SPREAD)) for side in (-1, 1))
    below = [
        0.5 * math.erfc((middle - math.log(upper_edge_ms(bucket))) / (_SPREAD * math.sqrt(2)))
        for bucket in range(first - 1, last + 1)
    ]
    chances = np.diff(np.array(below))
    return first, chances / chances.sum()
