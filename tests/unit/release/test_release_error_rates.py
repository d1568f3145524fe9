"""How often the engine is wrong when it is asked again and again: whole decision stages, simulated look by look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest

from serving.release.decide import DecisionKind, decide
from serving.release.policy import ReleasePolicy
from serving.release.state import ReleaseRecord
from serving.telemetry.evidence import UNIT_BUCKETS, Evidence, StageEvidence
from serving.telemetry.histogram import Histogram

LOOKS = 24
IMPRESSIONS_A_LOOK = 200_000
"""Of each arm; 24 looks are 9.6 million impressions at 50/50."""

LATENCY = Histogram.of(np.exp(0.3 * np.random.default_rng(0).standard_normal(100_000)).tolist())


def outcome(record: ReleaseRecord, policy: ReleasePolicy, *, uplift: float, seed: int) -> DecisionKind:
    """Look until something but Hold is said; units have their own tastes, so their clicks hang together."""
    random = np.random.default_rng(seed)
    rates = [0.05 * (1 + uplift), 0.05]
    shown, clicked = np.zeros((2, 2, UNIT_BUCKETS), dtype=int)
    for look in range(LOOKS):
        for arm, rate in enumerate(rates):
            new = random.poisson(IMPRESSIONS_A_LOOK / UNIT_BUCKETS, UNIT_BUCKETS)
            shown[arm] += new
            clicked[arm] += random.binomial(new, random.beta(rate * 2_000, (1 - rate) * 2_000, UNIT_BUCKETS))
        arms = [
            Evidence(impressions=tuple(i.tolist()), clicks=tuple(c.tolist()), latency=LATENCY)
            for i, c in zip(shown, clicked, strict=True)
        ]
        now = record.started_at + timedelta(days=1, hours=look)
        kind = decide(record, StageEvidence(challenger=arms[0], control=arms[1]), policy, now).kind
        if kind is not DecisionKind.HOLD:
            return kind
    return DecisionKind.HOLD


@pytest.mark.parametrize(
    ("uplift", "promoted", "given_back"), [(0.0, (0, 3), (40, 60)), (0.05, (57, 60), (0, 0)), (-0.05, (0, 0), (60, 60))]
)
def test_of_60_releases_as_many_are_promoted_and_given_back_as_is_promised(
    *,
    make_record: Callable[..., ReleaseRecord],
    policy: ReleasePolicy,
    uplift: float,
    promoted: tuple[int, int],
    given_back: tuple[int, int],
) -> None:
    ends = [outcome(make_record(), policy, uplift=uplift, seed=seed) for seed in range(60)]
    back = ends.count(DecisionKind.ROLL_BACK) + ends.count(DecisionKind.INCONCLUSIVE)
    assert promoted[0] <= ends.count(DecisionKind.PROMOTE) <= promoted[1]
    assert given_back[0] <= back <= given_back[1]
