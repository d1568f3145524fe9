"""Rows for the feature cache: the users and videos of the ranker's world, as its feature pipeline would write them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from serving.aws.features import ValkeyFeatures, connect
from serving.errors import LocalStackError
from serving.features.rows import Row, encode
from serving.features.views import View, views_of
from serving.spec import ModelSpec

_WORLD = Path("models/recommendation_ranker/world.py")
_NAME = "streamhub_world"


def load_world(root: Path) -> ModuleType:
    """Give the world's module from the project's folder.

    Raises:
        LocalStackError: there is none.

    """
    path = root / _WORLD
    found = importlib.util.spec_from_file_location(_NAME, path)
    if found is None or found.loader is None or not path.is_file():
        raise LocalStackError(f"features: got no {path}; allowed: the ranker's world; restore the file")
    module = importlib.util.module_from_spec(found)
    sys.modules[_NAME] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


def fill(url: str, *, models: dict[str, ModelSpec], root: Path, now: datetime) -> int:
    """Write all rows into the cache at `url`; give how many.

    Raises:
        FeatureStoreError: the cache cannot be written.
        LocalStackError: the world is missing.

    """
    module = load_world(root)
    world = module.World(module.WORLD_SEED)
    views = views_of(models)
    features = ValkeyFeatures(connect(url))
    try:
        return sum(
            features.write(_rows(views[name], entities, values, now), ttl_s=views[name].ttl_s)
            for name, entities, values in (
                ("user_profile", world.users, world.user_rows),
                ("video_stats", world.videos, world.video_rows),
            )
        )
    finally:
        features.close()


def _rows(view: View, entities: Sequence[str], values: Any, now: datetime) -> Iterator[tuple[str, bytes]]:  # noqa: ANN401 - an array of a module loaded at run time
    for entity, row in zip(entities, values, strict=True):
        yield view.key(entity), encode(view, Row(values=row, written_at=now))
