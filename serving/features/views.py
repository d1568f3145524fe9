"""A feature view: which fields a row has, in which order, where it is kept and how old it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from serving.errors import FeatureStoreError
from serving.spec import FeatureViewSpec, ModelSpec

TTL_FACTOR = 2.0
"""A row leaves the cache at twice the age it may be used at: until then `get` can show that it is stale."""


@dataclass(frozen=True, slots=True)
class View:
    """One view of a model's spec; `digest` is of its name and fields, so a row of another shape is never misread."""

    spec: FeatureViewSpec
    digest: bytes

    @classmethod
    def of(cls, spec: FeatureViewSpec) -> View:
        """Take a view from a spec."""
        text = "\n".join((spec.view, *spec.fields))
        return cls(spec, blake2b(text.encode(), digest_size=8).digest())

    @property
    def name(self) -> str:
        """The view's name."""
        return self.spec.view

    @property
    def width(self) -> int:
        """How many fields a row has."""
        return len(self.spec.fields)

    @property
    def ttl_s(self) -> float:
        """How long a row stays in the cache."""
        return self.spec.max_age_s * TTL_FACTOR

    @property
    def defaults(self) -> npt.NDArray[np.float32]:
        """What stands in for a missing or stale row, shape (width,)."""
        return np.asarray(self.spec.defaults, dtype=np.float32)

    def key(self, entity_id: str) -> str:
        """Give where the row of an entity is kept."""
        return self.keys((entity_id,))[0]

    def keys(self, entity_ids: Sequence[str]) -> list[str]:
        """Give where the rows of entities are kept."""
        prefix = f"features/{self.spec.view}/"
        return [prefix + entity_id for entity_id in entity_ids]


def views_of(models: dict[str, ModelSpec]) -> dict[str, View]:
    """Give all views of all models by name.

    Raises:
        FeatureStoreError: two models declare one name with different fields.

    """
    views: dict[str, View] = {}
    for model in models.values():
        for spec in model.features:
            view = View.of(spec)
            if views.setdefault(view.name, view).digest != view.digest:
                raise FeatureStoreError(
                    f"view {view.name!r}: got other fields in {model.name} than in another model; "
                    f"allowed one list of fields a name; rename one of them"
                )
    return views
