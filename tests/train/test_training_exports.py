"""What is exported answers as what was trained, and the same seed trains the same bytes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; run make test-train, which installs it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed; run make test-train, which installs it")
pytest.importorskip("skimage", reason="scikit-image is not installed; run make test-train, which installs it")

from models.content_moderator import train as moderator  # noqa: E402 - only once torch is known to be there
from models.content_moderator.scenes import draw_examples, word_numbers  # noqa: E402
from models.recommendation_ranker import train as ranker  # noqa: E402
from models.recommendation_ranker.world import FEATURES, WORLD_SEED, World  # noqa: E402
from models.thumbnail_scorer import train as scorer  # noqa: E402
from models.thumbnail_scorer.photographs import HELD_OUT, TRAINING, draw_crops  # noqa: E402
from models.training import data_digest, seed_torch  # noqa: E402

pytestmark = pytest.mark.train

Trained = tuple[onnx.ModelProto, Any]
TITLES = ("", "a brutal FIGHT!", "日本語 🎉", "clay and paint for the weekend, friends", "x " * 40)


def session_of(model: onnx.ModelProto) -> ort.InferenceSession:
    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def tiny_ranker(seed: int) -> tuple[Any, Any]:
    seeded = seed_torch(seed)
    recipe = dataclasses.replace(ranker.RECIPES[1], requests=60, seed=seed)
    log = ranker.impressions(World(1, user_count=100, video_count=200), recipe)
    return seeded, ranker.fit(seeded, log, epochs=1, batch_rows=64)


def ranker_graph(seed: int) -> Trained:
    seeded, network = tiny_ranker(seed)
    return ranker.export(seeded, network), network


def moderator_graph(seed: int) -> Trained:
    seeded = seed_torch(seed)
    network = moderator.fit(seeded, draw_examples(seed, 96), epochs=1)
    return moderator.export(seeded, network), network


def scorer_graph(seed: int) -> Trained:
    seeded = seed_torch(seed)
    network = scorer.fit(seeded, draw_crops(seed, 192, TRAINING, varied=True), epochs=1)
    return scorer.export(seeded, network), network


@pytest.fixture(scope="module", name="ranker_trained")
def ranker_trained_fixture() -> Trained:
    return ranker_graph(5)


@pytest.mark.parametrize("rows", [1, 2, 33])
def test_the_ranker_exported_answers_as_in_torch(ranker_trained: Trained, rows: int) -> None:
    model, network = ranker_trained
    features = np.random.default_rng(rows).normal(0.0, 4.0, (rows, len(FEATURES))).astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(features)).numpy()
    np.testing.assert_allclose(session_of(model).run(None, {"features": features})[0], expected, atol=1e-5)


@pytest.fixture(scope="module", name="moderator_trained")
def moderator_trained_fixture() -> Trained:
    return moderator_graph(6)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_the_moderator_exported_answers_as_in_torch(moderator_trained: Trained, rows: int) -> None:
    model, network = moderator_trained
    images = np.random.default_rng(rows).integers(0, 256, (rows, 64, 64, 3), dtype=np.uint8)
    titles = tuple(TITLES[row % len(TITLES)] for row in range(rows))
    with torch.no_grad():
        expected = network(torch.from_numpy(images), torch.from_numpy(word_numbers(titles))).numpy()
    np.testing.assert_allclose(moderator.scores_of(session_of(model), images, titles), expected, atol=1e-5)


@pytest.fixture(scope="module", name="scorer_trained")
def scorer_trained_fixture() -> Trained:
    return scorer_graph(7)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_the_scorer_exported_answers_as_in_torch(scorer_trained: Trained, rows: int) -> None:
    model, network = scorer_trained
    images = np.random.default_rng(rows).integers(0, 256, (rows, 96, 96, 3), dtype=np.uint8)
    with torch.no_grad():
        expected = network(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(scorer.scores_of(session_of(model), images), expected, atol=1e-5)


@pytest.mark.parametrize("graph_of", [ranker_graph, moderator_graph, scorer_graph])
def test_the_same_seed_trains_the_same_bytes_and_another_seed_others(graph_of: Any) -> None:
    first, again, other = (graph_of(seed)[0].SerializeToString(deterministic=True) for seed in (8, 8, 9))
    assert first == again
    assert first != other


def test_no_photograph_is_in_training_and_in_test() -> None:
    assert not set(TRAINING) & set(HELD_OUT)


def test_the_data_of_the_committed_ranker_can_be_made_again(root: Path) -> None:
    recipe = ranker.RECIPES[0]
    log = ranker.impressions(World(WORLD_SEED), recipe)
    record = json.loads((root / f"models/recommendation_ranker/weights/{recipe.version}.metrics.json").read_text())
    assert data_digest(log.rows, log.clicks) == record["data_sha256"]
    assert len(log.rows) == 80_000


def test_the_committed_scorer_ranks_unseen_photographs_as_its_metrics_say(root: Path) -> None:
    stem = root / "models/thumbnail_scorer/weights/1.0.0"
    metrics = json.loads(stem.with_name("1.0.0.metrics.json").read_text())["metrics"]
    data = draw_crops(scorer.HELD_OUT_SEED + 100, 600, HELD_OUT)
    session = ort.InferenceSession(stem.with_name("1.0.0.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    scores = scorer.scores_of(session, data.images)
    # 600 crops: the standard error of a rank correlation of 0.8 is below 0.02
    assert scorer.rank_correlation(scores, data.quality) == pytest.approx(metrics["spearman"], abs=0.06)
