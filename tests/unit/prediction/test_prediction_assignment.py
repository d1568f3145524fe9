"""Assignment: a ramp only adds units, shares are as asked, and the two buckets know nothing of each other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from serving.prediction.assignment import BUCKETS, assign, challenger_buckets, weight_of
from serving.prediction.types import Traffic

TRAFFIC = Traffic(production="a", challenger_share=0.1, release_id="rel-1", stage_index=2, salt="salt")
UNITS = [f"user_{number}" for number in range(20_000)]
# one in a million: a right implementation fails such a test once in a million changes of its hash
ALPHA = 1e-6

texts = st.text(min_size=1, max_size=40)
shares = st.floats(0, 1)


@given(unit=texts, salt=texts, low=shares, high=shares)
def test_a_ramp_moves_no_unit_back(unit: str, salt: str, low: float, high: float) -> None:
    low, high = sorted((low, high))
    before = assign(replace(TRAFFIC, salt=salt, challenger_share=low), unit)
    after = assign(replace(TRAFFIC, salt=salt, challenger_share=high), unit)
    assert after.challenger or not before.challenger
    assert (after.bucket, after.unit_bucket) == (before.bucket, before.unit_bucket)


@given(unit=texts)
def test_share_0_is_nobody_and_share_1_is_everybody(unit: str) -> None:
    assert assign(replace(TRAFFIC, challenger_share=0.0), unit).slot == "a"
    assert assign(replace(TRAFFIC, challenger_share=1.0), unit).slot == "b"
    assert assign(replace(TRAFFIC, challenger_share=1.0, production="b"), unit).slot == "a"


@given(unit=texts, salt=texts)
def test_the_bucket_is_the_digest_of_salt_and_unit_modulo_10_000(unit: str, salt: str) -> None:
    digest = blake2b((salt + unit).encode(), digest_size=9).digest()
    assignment = assign(replace(TRAFFIC, salt=salt), unit)
    assert assignment.bucket == int.from_bytes(digest[:8], "big") % 10_000
    assert 0 <= assignment.unit_bucket < 256


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_the_challenger_gets_its_share_of_units_within_binomial_bounds(share: float) -> None:
    got = sum(assign(replace(TRAFFIC, challenger_share=share), unit).challenger for unit in UNITS)
    assert stats.binomtest(got, len(UNITS), share).pvalue > ALPHA


def test_split_and_variance_buckets_are_independent_and_even() -> None:
    assigned = [assign(replace(TRAFFIC, challenger_share=0.5), unit) for unit in UNITS]
    eighths = Counter((row.challenger, row.unit_bucket // 32) for row in assigned)
    table = [[eighths[challenger, eighth] for eighth in range(8)] for challenger in (False, True)]
    assert stats.chi2_contingency(table).pvalue > ALPHA
    counts = Counter(row.unit_bucket for row in assigned)
    assert stats.chisquare([counts[bucket] for bucket in range(256)]).pvalue > ALPHA
    tenths = Counter(row.bucket // 1_000 for row in assigned)
    assert stats.chisquare([tenths[tenth] for tenth in range(10)]).pvalue > ALPHA


def test_two_experiments_split_independently() -> None:
    first = [assign(replace(TRAFFIC, challenger_share=0.5, salt="one"), unit).challenger for unit in UNITS]
    second = [assign(replace(TRAFFIC, challenger_share=0.5, salt="two"), unit).challenger for unit in UNITS]
    both = Counter(zip(first, second, strict=True))
    table = [[both[left, right] for right in (False, True)] for left in (False, True)]
    assert stats.chi2_contingency(table).pvalue > ALPHA


@pytest.mark.parametrize(
    ("share", "buckets"), [(0.07, 700), (0.1, 1_000), (0.29, 2_900), (0.57, 5_700), (1.0, BUCKETS)]
)
def test_a_share_is_its_number_of_buckets_whatever_floats_make_of_it(share: float, buckets: int) -> None:
    assert challenger_buckets(share) == buckets


def test_without_a_unit_there_is_no_bucket_and_no_challenger() -> None:
    assignment = assign(replace(TRAFFIC, challenger_share=1.0), None)
    assert (assignment.keyed, assignment.challenger, assignment.bucket) == (False, False, 0)


def test_the_weight_is_the_share_of_the_assigned_slot() -> None:
    weights = {assign(TRAFFIC, unit).slot: weight_of(TRAFFIC, assign(TRAFFIC, unit)) for unit in UNITS[:200]}
    assert weights == {"a": 0.9, "b": 0.1}
