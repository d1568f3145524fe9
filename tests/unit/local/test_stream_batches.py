"""A mapping of a stream after a failed batch, as the Lambda Developer Guide says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.stream_batches import Progress, Rules, Step, after, expired, first_failed


def test_a_batch_that_works_is_done_with() -> None:
    step = after(Progress(), Rules(), taken=10, failed_at=None)
    assert (step.done, step.progress, step.given_up) == (10, Progress(), None)


def test_without_limits_a_batch_is_tried_again_for_ever_and_whole() -> None:
    progress = Progress()
    for _ in range(1000):
        step = after(progress, Rules(batch_size=10), taken=7, failed_at=0)
        assert (step.done, step.given_up) == (0, None)
        progress = step.progress
        assert progress.size(Rules(batch_size=10)) == 7, "records that came later do not join it"


def test_two_retries_are_three_calls() -> None:
    rules, progress, calls = Rules(most_retries=2), Progress(), 0
    while True:
        calls += 1
        step = after(progress, rules, taken=4, failed_at=0)
        progress = step.progress
        if step.given_up:
            break
    assert (calls, step.given_up, step.done) == (3, "RetryAttemptsExhausted", 4)


def test_a_split_takes_no_retry() -> None:
    rules = Rules(most_retries=0, bisects=True)
    step = after(Progress(), rules, taken=5, failed_at=0)
    assert (step.done, step.progress, step.given_up) == (0, Progress((3, 2)), None)


def test_records_past_their_age_are_not_sent_and_younger_ones_are() -> None:
    """Lambda API reference, MaximumRecordAgeInSeconds: records that are older are discarded."""
    rules = Rules(most_age_s=60, batch_size=10)
    assert expired(Progress(), rules, [60, 59]) is None
    assert expired(Progress(), Rules(), [1e9]) is None, "without a limit"
    assert expired(Progress(), rules, [90, 61, 60, 5]) == Step(2, Progress(), "MaximumRecordAgeExceeded")
    split = Progress((3, 4), 1)
    assert expired(split, rules, [61, 2, 1]) == Step(1, Progress((2, 4), 1), "MaximumRecordAgeExceeded")
    assert expired(split, rules, [63, 62, 61]) == Step(3, Progress((4,)), "MaximumRecordAgeExceeded")


@given(ages=st.lists(st.integers(0, 9), max_size=20), size=st.integers(1, 12))
def test_a_record_is_sent_or_given_up_by_its_age_alone(ages: list[int], size: int) -> None:
    rules, left, progress = Rules(most_age_s=4, batch_size=size), sorted(ages, reverse=True), Progress()
    sent: list[int] = []
    while left:
        taken = left[: progress.size(rules)]
        step = expired(progress, rules, taken)
        if step is None:
            sent += taken
            step = after(progress, rules, taken=len(taken), failed_at=None)
        left, progress = left[step.done :], step.progress
    assert sent == [age for age in sorted(ages, reverse=True) if age <= 4]


def test_a_reported_item_is_where_it_goes_on() -> None:
    step = after(Progress(), Rules(), taken=5, failed_at=2)
    assert (step.done, step.progress) == (2, Progress((3,), 1))
    split = after(Progress(), Rules(bisects=True), taken=5, failed_at=2)
    assert (split.done, split.progress) == (2, Progress((3,), 0))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, None),
        ({}, None),
        ({"batchItemFailures": None}, None),
        ({"batchItemFailures": []}, None),
        ({"batchItemFailures": [{"itemIdentifier": "12"}, {"itemIdentifier": "11"}]}, 1),
        ({"batchItemFailures": [{"itemIdentifier": ""}]}, 0),
        ({"batchItemFailures": [{"itemIdentifier": None}]}, 0),
        ({"batchItemFailures": [{"other": "11"}]}, 0),
        ({"batchItemFailures": "11"}, 0),
    ],
)
def test_what_a_function_reports_is_read_as_the_guide_says(answer: Any, expected: int | None) -> None:
    assert first_failed(answer, ["10", "11", "12"]) == expected


@given(
    poison=st.sets(st.integers(0, 19), max_size=4),
    rules=st.builds(
        Rules,
        batch_size=st.integers(1, 12),
        most_retries=st.integers(0, 3),
        bisects=st.booleans(),
        reports_items=st.booleans(),
    ),
)
def test_every_record_is_handled_once_or_given_up_in_order_and_it_ends(poison: set[int], rules: Rules) -> None:
    records, position, progress, given_up = list(range(20)), 0, Progress(), []
    handled: list[int] = []
    for _ in range(500):
        taken = records[position : position + progress.size(rules)]
        if not taken:
            break
        bad = next((at for at, record in enumerate(taken) if record in poison), None)
        failed_at = bad if rules.reports_items or bad is None else 0
        step = after(progress, rules, taken=len(taken), failed_at=failed_at)
        lost = taken[failed_at:] if step.given_up and failed_at is not None else []
        given_up += lost
        handled += taken[: step.done - len(lost)]
        position, progress = position + step.done, step.progress
    assert position == 20
    assert sorted([*handled, *given_up]) == records
    assert poison <= set(given_up)
    if rules.bisects and not rules.reports_items:
        assert set(given_up) == poison, "halves find the records that fail, and no other is lost"
