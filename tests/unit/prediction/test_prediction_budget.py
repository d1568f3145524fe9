"""The parts of a request end before its deadline, and thresholds lead to the action the spec says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.prediction.answers import action_of
from serving.prediction.budget import budget_of
from serving.prediction.types import Action
from serving.spec import ApiSpec, BudgetSpec
from tests.fakes.prediction import spec_of

parts = st.floats(0.1, 1_000)


def test_the_rankers_parts_are_its_shares_of_the_deadline() -> None:
    budget = budget_of(spec_of("recommendation_ranker").budget)  # 2 + 8 + 2 of p99, deadline 60
    assert (budget.feature_read_ms, budget.invoke_ms, budget.answer_ms) == (10.0, 40.0, 5.0)


@given(feature=st.one_of(st.just(0.0), parts), invoke=parts, overhead=parts, deadline=parts, spent=st.floats(0, 2_000))
def test_no_part_ends_after_the_deadline(
    feature: float, invoke: float, overhead: float, deadline: float, spent: float
) -> None:
    spec = BudgetSpec(feature_read_ms=feature, invoke_ms=invoke, overhead_ms=overhead, deadline_ms=deadline)
    budget = budget_of(spec)
    read = max(budget.feature_timeout_ms(spent), 0.0)
    call = max(budget.invoke_timeout_ms(spent + read), 0.0)
    assert spent + read + call <= max(deadline, spent) + 1e-6
    if feature > 0 and spent < deadline - budget.answer_ms - 1:
        assert read > 0  # waiting alone never costs a request its features
    if spent == 0:
        assert call == pytest.approx(budget.invoke_ms)  # a slow feature read takes nothing from the call


def test_a_stages_deadline_replaces_the_models() -> None:
    spec = spec_of("content_moderator").budget
    assert budget_of(spec, deadline_ms=2_000).deadline_ms == 2_000
    assert budget_of(spec, deadline_ms=None).deadline_ms == 225


@pytest.mark.parametrize(
    ("nsfw", "violence", "action"),
    [
        (0.1, 0.2, Action.ALLOW),
        (0.5, 0.5, Action.ALLOW),  # above, not at
        (0.51, 0.0, Action.REVIEW),
        (0.85, 0.0, Action.REVIEW),
        (0.0, 0.86, Action.BLOCK),
        (0.6, 0.9, Action.BLOCK),
    ],
)
def test_the_strictest_threshold_that_is_passed_decides(nsfw: float, violence: float, action: Action) -> None:
    scores = {"safe": 0.0, "nsfw": nsfw, "violence": violence}
    assert action_of(scores, spec_of("content_moderator").api) is action


def test_without_thresholds_everything_is_allowed() -> None:
    assert action_of({"safe": 0.0}, ApiSpec(route="/v1/x", unit="content_id")) is Action.ALLOW
