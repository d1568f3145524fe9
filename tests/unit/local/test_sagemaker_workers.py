from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from local.sagemaker.workers import LEAST_OUTSTANDING, RANDOM, choose

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=8)
CHANCES = st.floats(0, 1, exclude_max=True)


@given(counts=COUNTS, chance=CHANCES)
def test_the_least_outstanding_is_never_busier_than_another(counts: list[int], chance: float) -> None:
    assert counts[choose(counts, LEAST_OUTSTANDING, chance)] == min(counts)


@given(counts=COUNTS, steps=st.integers(1, 40))
def test_random_routing_looks_at_no_counts_and_equals_share_alike(counts: list[int], steps: int) -> None:
    size = len(counts)
    spread = [(step + 0.5) / (steps * size) for step in range(steps * size)]
    assert [choose(counts, RANDOM, chance) for chance in spread] == [choose([0] * size, RANDOM, c) for c in spread]
    seen = [choose([7] * size, LEAST_OUTSTANDING, chance) for chance in spread]
    assert all(seen.count(place) == steps for place in range(size))
