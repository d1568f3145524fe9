"""Rows from JSON lines: all lines are right, or none is used and each wrong one is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.errors import FeatureStoreError
from serving.features.jsonl import read_rows
from serving.features.rows import decode
from serving.features.views import View
from serving.spec import FeatureViewSpec

VIEW = View.of(
    FeatureViewSpec(view="stats", entity="video_id", fields=("one", "two"), max_age_s=60.0, defaults=(0.0, 0.0))
)
VIEWS = {"stats": VIEW}
GOOD: dict[str, Any] = {
    "view": "stats",
    "id": "v1",
    "written_at": "2026-03-04T21:00:00Z",
    "values": {"two": 2, "one": 1.5},
}


def read(*values: object) -> Any:
    return read_rows([orjson.dumps(value) for value in values], VIEWS, file="rows.jsonl")


def test_values_are_put_into_the_order_of_the_fields() -> None:
    [row] = read(GOOD)
    assert row.key == "features/stats/v1"
    assert decode(VIEW, row.data).values.tolist() == [1.5, 2.0]


def test_empty_lines_are_skipped() -> None:
    assert len(read_rows([b"", orjson.dumps(GOOD), b"  "], VIEWS, file="f")) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"view": "other"}, "view: got 'other'; allowed stats"),
        ({"id": ""}, "id: got ''"),
        ({"id": 3}, "id: got 3"),
        ({"written_at": "2026-03-04T21:00:00"}, "written_at"),
        ({"written_at": 5}, "written_at"),
        ({"values": [1, 2]}, "values: got list"),
        ({"values": {"one": 1}}, "values.two: got nothing"),
        ({"values": {"one": "1", "two": True}}, "values.one: got '1'"),
        ({"values": {"one": 1, "two": 1e39}}, "values.two: got 1e+39"),
        ({"values": {"one": 1, "two": 2, "three": 3}}, "unknown three"),
        ({"more": 1}, "exactly id, values, view, written_at"),
    ],
)
def test_a_wrong_line_says_its_number_and_its_fault(change: dict[str, Any], said: str) -> None:
    with pytest.raises(FeatureStoreError) as caught:
        read(GOOD, {**GOOD, **change})
    assert "rows.jsonl:2: " in str(caught.value)
    assert said in str(caught.value)


def test_many_wrong_lines_are_counted_beyond_the_first_twenty() -> None:
    with pytest.raises(FeatureStoreError) as caught:
        read(*[{**GOOD, "id": 1}] * 25)
    lines = str(caught.value).splitlines()
    assert len(lines) == 22
    assert lines[-2:] == ["rows.jsonl: and 5 more lines", "rows.jsonl: nothing was written"]


def test_a_file_without_rows_is_refused() -> None:
    with pytest.raises(FeatureStoreError, match="no rows"):
        read()


@given(one=st.floats(width=32, allow_nan=False, allow_infinity=False), two=st.integers(-(2**24), 2**24))
def test_every_float32_is_kept(one: float, two: int) -> None:
    [row] = read({**GOOD, "values": {"one": one, "two": two}})
    assert decode(VIEW, row.data).values.tolist() == [np.float32(one), np.float32(two)]


@given(line=st.binary(max_size=60))
def test_any_bytes_are_rows_or_a_refusal(line: bytes) -> None:
    with pytest.raises(FeatureStoreError):
        read_rows([line], VIEWS, file="f")
