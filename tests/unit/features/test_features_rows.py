"""Rows as bytes: what is written is read, and what is stale, foreign or missing becomes the defaults."""

from __future__ import annotations

import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.errors import FeatureStoreError
from serving.features.rows import Row, decode, decode_many, encode
from serving.features.views import View, views_of
from serving.spec import FeatureViewSpec
from tests.fakes.prediction import spec_of

NOW = datetime(2026, 3, 4, 21, 0, tzinfo=UTC)
SPEC = FeatureViewSpec(
    view="stats", entity="video_id", fields=("one", "two", "three"), max_age_s=60.0, defaults=(-1.0, 0.0, 7.5)
)
VIEW = View.of(SPEC)

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
rows = st.lists(floats, min_size=3, max_size=3).map(lambda values: np.array(values, dtype=np.float32))
ages_s = st.integers(-120, 120)


def packed(values: object, *, age_s: float = 0.0) -> bytes:
    return encode(VIEW, Row(np.array(values, dtype=np.float32), NOW - timedelta(seconds=age_s)))


@given(values=rows, milliseconds=st.integers(0, 10**13))
def test_a_row_comes_back_bit_for_bit(values: np.ndarray, milliseconds: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    row = decode(VIEW, encode(VIEW, Row(values, at)))
    assert row.values.tobytes() == values.tobytes()
    assert row.written_at == at


def test_a_time_beyond_every_calendar_is_no_row() -> None:
    data = packed([1.0, 2.0, 3.0])
    with pytest.raises(FeatureStoreError, match="no date"):
        decode(VIEW, data[:12] + struct.pack(">Q", 2**64 - 1) + data[20:])


def test_the_layout_is_magic_digest_time_and_little_endian_floats() -> None:
    data = packed([1, 2, 3])
    assert data[:4] == b"SHF1"
    assert struct.unpack(">Q", data[12:20]) == (int(NOW.timestamp() * 1000),)
    assert struct.unpack("<3f", data[20:]) == (1, 2, 3)


@given(found=st.lists(st.one_of(st.none(), st.tuples(rows, ages_s)), min_size=1, max_size=8))
def test_many_rows_are_what_single_ones_are(found: list[tuple[np.ndarray, int] | None]) -> None:
    data = [None if row is None else packed(row[0], age_s=row[1]) for row in found]
    read = decode_many(VIEW, data, now=NOW)
    for index, row in enumerate(found):
        usable = row is not None and row[1] <= 60
        assert read.usable[index] == usable
        expected = row[0] if usable and row is not None else np.array(SPEC.defaults, dtype=np.float32)
        assert read.values[index].tobytes() == expected.tobytes()


def test_a_row_is_usable_up_to_its_age_and_not_a_millisecond_longer() -> None:
    read = decode_many(VIEW, [packed([1, 2, 3], age_s=60.0), packed([1, 2, 3], age_s=60.001)], now=NOW)
    assert read.usable.tolist() == [True, False]


@pytest.mark.parametrize("change", [{"view": "other"}, {"fields": ("two", "one", "three")}, {"fields": ("one", "two")}])
def test_a_row_of_other_fields_is_never_misread(change: dict[str, object]) -> None:
    spec = replace(SPEC, **change)  # type: ignore[arg-type]
    foreign = encode(View.of(spec), Row(np.ones(len(spec.fields), dtype=np.float32), NOW))
    assert decode_many(VIEW, [foreign], now=NOW).usable.tolist() == [False]
    with pytest.raises(FeatureStoreError, match="no row of its fields"):
        decode(VIEW, foreign)


@given(data=st.binary(max_size=64))
def test_any_other_bytes_are_no_row(data: bytes) -> None:
    assert decode_many(VIEW, [data], now=NOW).usable.tolist() == [False]
    with pytest.raises(FeatureStoreError):
        decode(VIEW, data)


@pytest.mark.parametrize("values", [[1, 2], [1, 2, 3, 4], [1, 2, float("nan")], [1, 2, float("inf")]])
def test_a_row_that_is_not_whole_is_not_written(values: list[float]) -> None:
    with pytest.raises(FeatureStoreError, match="finite"):
        packed(values)


def test_one_name_for_two_lists_of_fields_is_refused() -> None:
    ranker = spec_of("recommendation_ranker")
    other = replace(ranker, name="other", features=(replace(ranker.features[0], fields=("x",), defaults=(0.0,)),))
    with pytest.raises(FeatureStoreError, match="rename one"):
        views_of({"ranker": ranker, "other": other})
