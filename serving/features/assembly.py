"""Rows of a request's unit, rows of its candidates and its context, put together as the model wants them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from serving.features.context import CONTEXT_FIELDS
from serving.features.rows import Rows, decode_many
from serving.features.views import View
from serving.spec import ModelSpec

POPULARITY = "popularity"


@dataclass(frozen=True, slots=True)
class Layout:
    """Which view fills which columns: `views` in the spec's order, context last.

    A view of the API's unit gives one row for the whole request; any other gives one row a candidate.
    """

    views: tuple[View, ...]
    unit: str

    @classmethod
    def of(cls, spec: ModelSpec) -> Layout:
        """Take the layout from a spec."""
        return cls(tuple(View.of(view) for view in spec.features), spec.api.unit)

    @property
    def width(self) -> int:
        """Columns of the model input."""
        return sum(view.width for view in self.views) + len(CONTEXT_FIELDS)

    def keys(self, unit: str | None, candidates: Sequence[str]) -> list[str]:
        """Give the keys to read, in the order that `assemble` takes their rows; no key for a unit of None."""
        keys: list[str] = []
        for view in self.views:
            keys += view.keys(self._entities(view, unit=unit, candidates=candidates))
        return keys

    def assemble(
        self,
        found: Sequence[bytes | None],
        *,
        unit: str | None,
        candidates: Sequence[str],
        context: npt.NDArray[np.float32],
        now: datetime,
    ) -> Assembled:
        """Make the model input; `found` is what the cache gave for `keys`, or nothing when it gave no answer."""
        parts: dict[str, Rows] = {}
        values = np.empty((len(candidates), self.width), dtype=np.float32)
        at = column = 0
        for view in self.views:
            wanted = len(self._entities(view, unit=unit, candidates=candidates))
            rows = found[at : at + wanted] if found else (None,) * wanted
            at += wanted
            part = decode_many(view, rows if wanted else (None,), now=now)
            values[:, column : column + view.width] = part.values
            parts[view.name] = part
            column += view.width
        values[:, column:] = context
        return Assembled(values, self, parts)

    def _entities(self, view: View, *, unit: str | None, candidates: Sequence[str]) -> Sequence[str]:
        if view.spec.entity != self.unit:
            return candidates
        return () if unit is None else (unit,)


@dataclass(frozen=True, slots=True, eq=False)
class Assembled:
    """The model input, float32 (candidates, width), and the rows of each view that it is made of."""

    values: npt.NDArray[np.float32]
    layout: Layout
    parts: dict[str, Rows]

    @property
    def degraded(self) -> bool:
        """At least one row is a default."""
        return not all(part.usable.all() for part in self.parts.values())

    def popularity(self) -> npt.NDArray[np.float32]:
        """Give the candidates' field `popularity`; zeros where no view has it."""
        for view in self.layout.views:
            if view.spec.entity != self.layout.unit and POPULARITY in view.spec.fields:
                return self.parts[view.name].values[:, view.spec.fields.index(POPULARITY)]
        return np.zeros(len(self.values), dtype=np.float32)
