"""Model input: the columns that the ranker was trained on, defaults where rows are missing, and what is said."""

from __future__ import annotations

import importlib.util
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from serving.features.assembly import Layout
from serving.features.context import CONTEXT_FIELDS, context_row
from serving.features.rows import Row, encode
from tests.fakes.prediction import spec_of

NOW = datetime(2026, 3, 4, 21, 0, tzinfo=UTC)
LAYOUT = Layout.of(spec_of("recommendation_ranker"))
CONTEXT = context_row(hour=0, device=None, weekend=False, now=NOW)


@pytest.fixture(scope="module", name="world")
def world_fixture(root: Path) -> ModuleType:
    """Give the module that the ranker is trained in."""
    spec = importlib.util.spec_from_file_location("world_of_ranker", root / "models/recommendation_ranker/world.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_columns_are_those_of_the_training_world(world: ModuleType) -> None:
    fields = [name for view in LAYOUT.views for name in view.spec.fields]
    assert (*fields, *CONTEXT_FIELDS) == world.FEATURES


def test_serving_makes_the_input_that_training_made(world: ModuleType) -> None:
    made = world.World(seed=3, user_count=20, video_count=50)
    user, videos, context = made.request(np.random.default_rng(5), 12)
    candidates = [made.videos[index] for index in videos]
    rows = [encode(LAYOUT.views[0], Row(made.user_rows[user], NOW))]
    rows += [encode(LAYOUT.views[1], Row(made.video_rows[index], NOW)) for index in videos]
    assembled = LAYOUT.assemble(
        rows,
        unit=made.users[user],
        candidates=candidates,
        context=context_row(**context.document(), now=NOW),
        now=NOW,
    )
    assert not assembled.degraded
    np.testing.assert_allclose(assembled.values, made.features(user, videos, context), rtol=0, atol=1e-6)


def test_keys_are_the_users_and_then_the_candidates_in_order() -> None:
    assert LAYOUT.keys("u", ["v2", "v1"]) == [
        "features/user_profile/u",
        "features/video_stats/v2",
        "features/video_stats/v1",
    ]
    assert LAYOUT.keys(None, ["v1"]) == ["features/video_stats/v1"]


def test_missing_and_stale_rows_are_defaults_and_said_to_be() -> None:
    user = encode(LAYOUT.views[0], Row(np.ones(16, dtype=np.float32), NOW))
    stale = encode(LAYOUT.views[1], Row(np.ones(16, dtype=np.float32), NOW - timedelta(hours=2)))
    assembled = LAYOUT.assemble(
        [user, None, stale, None], unit="u", candidates=["a", "b", "c"], context=CONTEXT, now=NOW
    )
    assert assembled.degraded
    assert [part.usable.tolist() for part in assembled.parts.values()] == [[True], [False, False, False]]


def test_without_any_answer_of_the_cache_all_rows_are_defaults() -> None:
    assembled = LAYOUT.assemble([], unit="u", candidates=["a", "b"], context=CONTEXT, now=NOW)
    assert assembled.degraded
    assert assembled.values[:, :32].any() == False  # noqa: E712 - numpy's own bool: the spec's defaults are zeros
    assert assembled.popularity().tolist() == [0, 0]


def test_context_columns_are_the_hour_on_a_circle_and_two_flags() -> None:
    row = context_row(hour=18, device="mobile", weekend=True, now=NOW)
    assert row.tolist() == pytest.approx([-1, 0, 1, 1], abs=1e-6)
    assert context_row(hour=18, device="tablet", weekend=False, now=NOW)[2:].tolist() == [0, 0]


def test_an_hour_of_0_and_a_weekend_of_false_are_said_and_not_taken_from_the_clock() -> None:
    saturday = datetime(2026, 3, 7, 12, 0, tzinfo=UTC)
    assert context_row(hour=0, device=None, weekend=False, now=saturday).tolist() == [0, 1, 0, 0]
    assert context_row(hour=None, device=None, weekend=None, now=saturday).tolist() == pytest.approx(
        [0, -1, 0, 1], abs=1e-6
    )
