"""The demo's people behave as the world says, whatever the answers are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.demo.audience import SHOWN, Audience, true_click_rate
from cli.demo.traffic import Answer, Ask
from models.recommendation_ranker.world import World


@pytest.fixture(scope="module", name="world")
def world_fixture() -> World:
    return World(7, user_count=200, video_count=300)


def audience(world: World, seed: int = 1) -> Audience:
    return Audience(world=world, rng=np.random.default_rng(seed))


def answered(ask: Ask, *, first: str) -> Answer:
    return Answer(
        ask=ask,
        status=200,
        latency_ms=1.0,
        document={"prediction_id": "p", "items": [{"video_id": first, "score": 0.5}]},
    )


def test_the_same_seed_asks_the_same(world: World) -> None:
    assert list(audience(world).asks(20)) == list(audience(world).asks(20))


def test_a_visit_asks_for_different_candidates_of_the_world(world: World) -> None:
    for ask in audience(world).asks(20):
        candidates = ask.body["candidates"]
        assert isinstance(candidates, list)
        assert len(set(candidates)) == len(candidates) == SHOWN
        assert set(candidates) <= set(world.videos)


def test_first_videos_are_clicked_as_often_as_the_world_says(world: World) -> None:
    people = audience(world, seed=5)
    asks = list(people.asks(4_000))
    clicks = sum(len(people.outcomes(answered(ask, first=ask.body["candidates"][0]))) for ask in asks)
    expected = [
        world.click_probability(ask.tag.user, np.array(ask.tag.candidates[:1]), ask.tag.context)[0] for ask in asks
    ]
    spread = np.sqrt(sum(p * (1 - p) for p in expected))
    assert abs(clicks - sum(expected)) < 4 * spread


def test_an_answer_without_items_leads_to_nothing(world: World) -> None:
    people = audience(world)
    ask = next(iter(people.asks(1)))
    assert people.outcomes(Answer(ask=ask, status=200, latency_ms=1.0, document={})) == []


def test_the_newer_ranker_is_truly_better_by_what_the_demo_needs(root: Path) -> None:
    weights = root / "models" / "recommendation_ranker" / "weights"
    world = World(7)
    old, new = (true_click_rate(world, weights / f"{version}.onnx") for version in ("2.0.0", "3.0.0"))
    assert 0.2 < old < 0.35
    assert 0.2 < new / old - 1 < 0.6
