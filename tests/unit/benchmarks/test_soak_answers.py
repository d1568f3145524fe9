"""What the soak counts as the same answer, and what makes a route clean."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.soak import RouteReport, same

ANSWER = {"prediction_id": "x", "model_version": "3.0.0", "items": [{"video_id": "v", "score": 0.25}], "degraded": []}


def test_an_answer_is_the_same_whatever_its_id_and_its_float_noise() -> None:
    other = ANSWER | {"prediction_id": "y", "items": [{"video_id": "v", "score": 0.25 + 1e-7}]}
    assert same(ANSWER, other)


@pytest.mark.parametrize(
    "change",
    [
        {"items": [{"video_id": "v", "score": 0.26}]},
        {"items": [{"video_id": "w", "score": 0.25}]},
        {"items": []},
        {"model_version": "2.0.0"},
        {"action": "block"},
    ],
)
def test_another_score_order_version_or_field_differs(change: dict[str, object]) -> None:
    assert not same(ANSWER, ANSWER | change)


@pytest.mark.parametrize(
    ("report", "clean"),
    [
        (RouteReport(statuses=Counter({200: 9, 503: 1}), latencies_ms=[1.0]), True),
        (RouteReport(statuses=Counter({200: 9, 500: 1}), latencies_ms=[1.0]), False),
        (RouteReport(statuses=Counter({200: 9}), latencies_ms=[1.0], differing=1), False),
        (RouteReport(statuses=Counter({503: 9}), latencies_ms=[1.0], sheds_without_retry_after=1), False),
        (RouteReport(statuses=Counter({503: 9})), False),
    ],
)
def test_a_route_is_clean_with_answers_and_documented_sheds_alone(report: RouteReport, *, clean: bool) -> None:
    assert report.clean is clean
