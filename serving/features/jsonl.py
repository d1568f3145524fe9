"""Feature rows from JSON lines: `{"view", "id", "written_at", "values": {field: number}}`, all checked first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import orjson

from serving.errors import FeatureStoreError
from serving.features.rows import Row, encode
from serving.features.views import View

MAX_SHOWN = 20
_KEYS = frozenset({"view", "id", "written_at", "values"})


@dataclass(frozen=True, slots=True)
class PackedRow:
    """One row ready to be written."""

    view: View
    key: str
    data: bytes


def read_rows(lines: Iterable[bytes], views: Mapping[str, View], *, file: str) -> list[PackedRow]:
    """Read all lines; empty ones are skipped.

    Raises:
        FeatureStoreError: lines are wrong; its text has one line for each of the first 20, and how many more there are.

    """
    rows: list[PackedRow] = []
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        found = list(_faults(line, views))
        if found:
            faults.append(f"{file}:{number}: {'; '.join(found)}")
        else:
            rows.append(_packed(orjson.loads(line), views))
    if not rows and not faults:
        faults.append(f"{file}: got no rows; allowed one JSON object a line; write at least one")
    if faults:
        more = [f"{file}: and {len(faults) - MAX_SHOWN} more lines"] if len(faults) > MAX_SHOWN else []
        raise FeatureStoreError("\n".join([*faults[:MAX_SHOWN], *more, f"{file}: nothing was written"]))
    return rows


def _packed(value: dict[str, Any], views: Mapping[str, View]) -> PackedRow:
    view = views[value["view"]]
    values = np.array([value["values"][name] for name in view.spec.fields], dtype=np.float32)
    return PackedRow(
        view, view.key(value["id"]), encode(view, Row(values, datetime.fromisoformat(value["written_at"])))
    )


def _faults(line: bytes, views: Mapping[str, View]) -> Iterator[str]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        yield f"got no JSON ({error}); allowed a JSON object"
        return
    if not isinstance(value, dict) or set(value) != _KEYS:
        got = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
        yield f"got {got}; allowed an object with exactly {', '.join(sorted(_KEYS))}"
        return
    if not isinstance(value["id"], str) or not value["id"]:
        yield f"id: got {value['id']!r}; allowed a text"
    if not _is_instant(value["written_at"]):
        yield f"written_at: got {value['written_at']!r}; allowed a time with its offset, as 2026-01-31T12:00:00Z"
    view = views.get(value["view"]) if isinstance(value["view"], str) else None
    if view is None:
        yield f"view: got {value['view']!r}; allowed {', '.join(sorted(views))}"
    else:
        yield from _value_faults(value["values"], view)


def _value_faults(values: object, view: View) -> Iterator[str]:
    if not isinstance(values, dict):
        yield f"values: got {type(values).__name__}; allowed an object of numbers by field"
        return
    fields = view.spec.fields
    for name in fields:
        number = values.get(name)
        if type(number) not in {int, float} or not _fits(number):  # type: ignore[arg-type]
            got = repr(number) if name in values else "nothing"
            yield f"values.{name}: got {got}; allowed a finite float32 number"
    unknown = sorted(map(str, set(values) - set(fields)))
    if unknown:
        yield f"values: got unknown {', '.join(unknown)}; allowed {', '.join(fields)}"


def _fits(number: float) -> bool:
    return math.isfinite(number) and abs(number) <= float(np.finfo(np.float32).max)


def _is_instant(text: object) -> bool:
    try:
        at = datetime.fromisoformat(text)  # type: ignore[arg-type]
        return at.tzinfo is not None and at.timestamp() >= 0
    except (TypeError, ValueError, OverflowError):
        return False
