"""The people of the demo: they ask for lists, look at the first video, and click as the simulated world says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnxruntime as ort

from cli.demo.traffic import Answer, Ask
from models.recommendation_ranker.world import Context, World

RANK_ROUTE = "/v1/rank"
OUTCOMES_ROUTE = "/v1/outcomes"
SHOWN = 20
"""Candidates a request: enough for versions to differ in their first one, few enough for a laptop."""

_TRUTH_REQUESTS = 1_500
_TRUTH_SEED = 20_261


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request for a list, as the world knows it."""

    user: int
    candidates: tuple[int, ...]
    context: Context
    luck: float


@dataclass(slots=True)
class Audience:
    """Draws visits and clicks of one world; the same seed gives the same people asking the same."""

    world: World
    rng: np.random.Generator
    _index: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Look videos up by name once."""
        self._index = {name: index for index, name in enumerate(self.world.videos)}

    def asks(self, count: int) -> Iterator[Ask]:
        """Draw rank requests, each with its visit as tag."""
        for _ in range(count):
            user, candidates, context = self.world.request(self.rng, SHOWN)
            visit = Visit(
                user=user, candidates=tuple(map(int, candidates)), context=context, luck=float(self.rng.random())
            )
            body: dict[str, object] = {
                "user_id": self.world.users[user],
                "candidates": [self.world.videos[video] for video in candidates],
                "context": context.document(),
            }
            yield Ask(route=RANK_ROUTE, body=body, tag=visit)

    def outcomes(self, answer: Answer) -> list[Ask]:
        """Give the click that an answer leads to, if any: the first video is clicked with its true probability."""
        visit = answer.ask.tag
        items = answer.document.get("items")
        if not isinstance(visit, Visit) or not isinstance(items, list) or not items:
            return []
        first = np.array([self._index[items[0]["video_id"]]])
        if visit.luck >= float(self.world.click_probability(visit.user, first, visit.context)[0]):
            return []
        body: dict[str, object] = {
            "prediction_id": answer.document["prediction_id"],
            "event": "click",
            "value": 1,
            "occurred_at": datetime.now(UTC).isoformat(),
        }
        return [Ask(route=OUTCOMES_ROUTE, body=body)]


def true_click_rate(world: World, weights: Path) -> float:
    """Give how often the first video of a list is clicked when these weights order it, by the world's own truth."""
    session = ort.InferenceSession(weights.read_bytes(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(_TRUTH_SEED)
    clicked = []
    for _ in range(_TRUTH_REQUESTS):
        user, candidates, context = world.request(rng, SHOWN)
        scores = session.run(["score"], {"features": world.features(user, candidates, context)})[0][:, 0]
        first = candidates[[int(np.argmax(scores))]]
        clicked.append(float(world.click_probability(user, first, context)[0]))
    return float(np.mean(clicked))
