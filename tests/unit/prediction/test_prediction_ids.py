"""Prediction ids: they say the whole assignment, survive a URL, and refuse what is not whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.errors import InvalidRequestError
from serving.prediction import ids
from serving.prediction.ids import PredictionRef
from serving.prediction.types import Assignment

NOW = datetime(2026, 3, 4, 21, 0, tzinfo=UTC)

assignments = st.builds(
    Assignment,
    slot=st.sampled_from(["a", "b"]),
    bucket=st.integers(0, 9_999),
    unit_bucket=st.integers(0, 255),
    release_id=st.from_regex(r"[A-Za-z0-9._-]{0,60}", fullmatch=True),
    stage_index=st.integers(0, 999),
    challenger=st.booleans(),
    keyed=st.booleans(),
)
refs = st.builds(
    PredictionRef,
    unique=st.builds(
        ids.unique_part,
        st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds the zone
        st.binary(min_size=10, max_size=10),
    ),
    model=st.from_regex(r"[a-z][a-z0-9_]{0,30}", fullmatch=True),
    version=st.from_regex(r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}", fullmatch=True),
    assignment=assignments,
    weight=st.floats(0, 1).map(abs),
)


@given(ref=refs)
def test_an_id_says_all_that_it_was_made_of(ref: PredictionRef) -> None:
    made = ids.make(ref)
    assert ids.parse(made) == ref
    assert len(made) <= 200


@given(ref=refs)
def test_an_id_stands_in_a_url_as_it_is(ref: PredictionRef) -> None:
    assert quote(ids.make(ref), safe="") == ids.make(ref)


@given(ref=refs, data=st.data())
def test_a_changed_character_is_refused(ref: PredictionRef, data: st.DataObject) -> None:
    made = ids.make(ref)
    place = data.draw(st.integers(0, len(made) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda letter: letter != made[place]))
    with pytest.raises(InvalidRequestError):  # but for one change in 16 million, as the check has 24 bits
        ids.parse(made[:place] + other + made[place + 1 :])


@given(text=st.text(max_size=300))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="prediction_id"):
        ids.parse(text)


def test_a_cut_id_is_refused() -> None:
    assignment = Assignment(
        slot="a", bucket=1, unit_bucket=2, release_id="r", stage_index=0, challenger=False, keyed=True
    )
    ref = PredictionRef(
        unique=ids.unique_part(NOW, bytes(10)), model="m", version="1.0.0", assignment=assignment, weight=0.5
    )
    made = ids.make(ref)
    for length in range(len(made)):
        with pytest.raises(InvalidRequestError):
            ids.parse(made[:length])


def test_ids_sort_by_time() -> None:
    parts = [ids.unique_part(NOW + timedelta(milliseconds=step), b"\xff" * 10) for step in range(50)]
    assert parts == sorted(parts)
    assert len(set(parts)) == 50


def test_the_unique_part_is_a_ulid() -> None:
    # the vector of the reference implementation (github.com/ulid/javascript): ulid(1469918176385) begins so
    at = datetime(2016, 7, 30, 22, 36, 16, 385_000, tzinfo=UTC)
    assert ids.unique_part(at, bytes(10)) == "01ARYZ6S41" + "0" * 16


@pytest.mark.parametrize("field", [{"model": "Bad~Name"}, {"version": "1"}, {"weight": 2e300 * 1e300}])
def test_what_an_id_cannot_carry_is_not_made(field: dict[str, object]) -> None:
    assignment = Assignment(
        slot="a", bucket=1, unit_bucket=2, release_id="r", stage_index=0, challenger=False, keyed=True
    )
    whole = {"unique": ids.unique_part(NOW, bytes(10)), "model": "m", "version": "1.0.0", "weight": 0.5}
    with pytest.raises(ValueError, match="prediction id"):
        ids.make(PredictionRef(assignment=assignment, **{**whole, **field}))  # type: ignore[arg-type]
