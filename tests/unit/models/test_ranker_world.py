"""The ranker's two versions in the world whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from sklearn.metrics import roc_auc_score

from model_packaging.accuracy import area_under_curve
from models.recommendation_ranker.train import (
    EVALUATION_SEED,
    Evaluation,
    evaluation,
    measure,
    scores_of,
)
from models.recommendation_ranker.world import (
    CONTEXT_FIELDS,
    FEATURES,
    USER_FIELDS,
    VIDEO_FIELDS,
    WORLD_SEED,
    Context,
    World,
)
from serving.features.context import context_row
from serving.spec.load import load_model

Opener = Callable[[str, str], ort.InferenceSession]
FRESH_SEED = 987_654


@pytest.fixture(scope="module", name="world")
def world_fixture() -> World:
    return World(WORLD_SEED)


@pytest.fixture(scope="module", name="requests")
def requests_fixture(world: World) -> Evaluation:
    return evaluation(world)


def true_rate(world: World, session: ort.InferenceSession, requests: int) -> float:
    """Show the video ranked first; give the mean of the true click probabilities."""
    rng = np.random.default_rng(FRESH_SEED)
    clicks = 0.0
    for _ in range(requests):
        user, videos, context = world.request(rng)
        best = int(np.argmax(scores_of(session, world.features(user, videos, context))))
        clicks += float(world.click_probability(user, videos[best : best + 1], context)[0])
    return clicks / requests


def test_version_3_clicks_a_fifth_to_two_fifths_more_often_than_2_on_requests_nobody_saw(
    world: World, opened: Opener
) -> None:
    old = true_rate(world, opened("recommendation_ranker", "2.0.0"), 1_500)
    new = true_rate(world, opened("recommendation_ranker", "3.0.0"), 1_500)
    assert 0.25 < old < 0.35
    assert 1.2 < new / old < 1.5


def test_version_3_is_better_in_a_world_of_other_users_and_videos_too(opened: Opener) -> None:
    other = World(WORLD_SEED + 1)
    old = true_rate(other, opened("recommendation_ranker", "2.0.0"), 800)
    new = true_rate(other, opened("recommendation_ranker", "3.0.0"), 800)
    assert new > 1.15 * old


@pytest.mark.parametrize("version", ["2.0.0", "3.0.0"])
def test_the_committed_metrics_are_what_is_measured_again(
    root: Path, requests: Evaluation, opened: Opener, version: str
) -> None:
    path = root / f"models/recommendation_ranker/weights/{version}.metrics.json"
    committed = json.loads(path.read_text())["metrics"]
    again = measure(scores_of(opened("recommendation_ranker", version), requests.rows), requests)
    assert again == pytest.approx(committed, abs=1e-3)


def test_the_score_of_version_3_is_calibrated_within_two_points(requests: Evaluation, opened: Opener) -> None:
    scores = scores_of(opened("recommendation_ranker", "3.0.0"), requests.rows)
    assert float(scores.mean()) == pytest.approx(float(requests.truth.mean()), abs=0.02)


def test_the_area_under_the_curve_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    positive = rng.random(500) < 0.2
    scores = (rng.normal(0.0, 1.0, 500) + positive).astype(np.float32)
    assert area_under_curve(scores, positive) == pytest.approx(roc_auc_score(positive, scores))


def test_the_same_seed_gives_the_same_world_and_another_seed_another() -> None:
    one, again, other = (World(seed, user_count=50, video_count=80) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.user_rows, again.user_rows)
    np.testing.assert_array_equal(one.video_rows, again.video_rows)
    assert not np.array_equal(one.video_rows, other.video_rows)


def test_the_columns_of_the_world_are_those_of_the_spec(root: Path) -> None:
    spec = load_model(root, "recommendation_ranker")
    views = {view.view: view.fields for view in spec.features}
    assert views == {"user_profile": USER_FIELDS, "video_stats": VIDEO_FIELDS}
    assert spec.inputs[0].shape == (len(FEATURES),)


def test_a_context_gives_the_columns_that_serving_makes_of_its_document() -> None:
    for context in (Context(hour=0, mobile=True, weekend=False), Context(hour=17, mobile=False, weekend=True)):
        document = context.document()
        served = context_row(
            hour=context.hour,
            device=str(document["device"]),
            weekend=context.weekend,
            now=datetime(2026, 1, 1, tzinfo=UTC),
        )
        np.testing.assert_allclose(context.row(), served, atol=1e-6)
        assert len(served) == len(CONTEXT_FIELDS)


def test_candidates_of_a_request_are_different_videos(world: World) -> None:
    _, videos, _ = world.request(np.random.default_rng(EVALUATION_SEED), 200)
    assert len(set(videos.tolist())) == 200
