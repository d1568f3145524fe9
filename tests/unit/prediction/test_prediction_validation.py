"""The small validator agrees with jsonschema on every body, and finds every fault of one."""

from __future__ import annotations

from typing import Any

import jsonschema
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.errors import InvalidRequestError
from serving.prediction import ids, requests, schemas
from serving.prediction.types import Assignment
from serving.prediction.validation import faults
from tests.fakes.prediction import NOW

SCHEMAS = [schemas.rank_schema(5), schemas.MODERATE, schemas.THUMBNAIL_SCORE, schemas.SUPPORT, schemas.OUTCOME]
FIELDS = sorted({name for schema in SCHEMAS for name in schema["properties"]} | {"hour", "device", "weekend"})

# numbers without integral floats: JSON Schema calls 1.0 an integer, the API does not
numbers = st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: not value.is_integer())
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 30),
    numbers,
    st.text(max_size=5),
    st.sampled_from(["click", "mobile", "x" * 129]),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=7), st.dictionaries(st.one_of(st.sampled_from(FIELDS), st.text(max_size=3)), inner)
    ),
    max_leaves=12,
)


@given(value=values, schema=st.sampled_from(SCHEMAS))
def test_it_accepts_what_jsonschema_accepts_and_nothing_else(value: object, schema: dict[str, Any]) -> None:
    ours = not list(faults(value, schema))
    assert ours == jsonschema.Draft202012Validator(schema).is_valid(value)


BODIES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (schemas.rank_schema(5), {"user_id": "u", "candidates": ["a", "b"], "context": {"hour": 0, "weekend": False}}),
    (schemas.MODERATE, {"content_id": None, "title": "", "image_base64": "QQ=="}),
    (schemas.SUPPORT, {"session_id": "s", "question": "q", "passages": ["p"], "stream": True}),
    (schemas.OUTCOME, {"prediction_id": "p", "event": "watch", "value": 2.5, "occurred_at": "t"}),
]


@given(data=st.data(), case=st.sampled_from(BODIES))
def test_a_right_body_with_one_field_changed_is_judged_as_jsonschema_does(
    data: st.DataObject, case: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    schema, body = case
    field = data.draw(st.sampled_from(sorted(body)))
    changed = {**body, field: data.draw(values)}
    assert not list(faults(body, schema))
    assert (not list(faults(changed, schema))) == jsonschema.Draft202012Validator(schema).is_valid(changed)


@pytest.mark.parametrize("schema", SCHEMAS, ids=["rank", "moderate", "thumbnail", "support", "outcome"])
def test_the_published_schemas_are_json_schema(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


def prediction_id() -> str:
    assignment = Assignment(
        slot="a", bucket=1, unit_bucket=2, release_id="r", stage_index=0, challenger=False, keyed=True
    )
    unique = ids.unique_part(NOW, bytes(10))
    return ids.make(ids.PredictionRef(unique=unique, model="m", version="1.0.0", assignment=assignment, weight=1.0))


def fields_of(body: object) -> set[str]:
    with pytest.raises(InvalidRequestError) as caught:
        requests.outcome_request(orjson.dumps(body))
    return {problem.key for problem in caught.value.problems}


def test_an_outcome_needs_a_whole_id_an_event_and_a_time_with_an_offset() -> None:
    body = {"prediction_id": "forged", "event": "buy", "occurred_at": "2026-01-01T00:00:00"}
    assert fields_of(body) == {"prediction_id", "event", "occurred_at"}


@pytest.mark.parametrize(
    ("event", "value"), [("click", 2), ("click", 0), ("label", 1.5), ("watch", -1), ("watch", None), ("label", True)]
)
def test_a_value_fits_its_event(event: str, value: object) -> None:
    body = {"prediction_id": prediction_id(), "event": event, "value": value, "occurred_at": "2026-01-01T00:00:00Z"}
    assert fields_of(body) == {"value"}


def test_watch_and_label_need_a_value_and_a_click_does_not() -> None:
    body = {"prediction_id": prediction_id(), "occurred_at": "2026-01-01T00:00:00+01:00"}
    assert fields_of({**body, "event": "watch"}) == {"value"}
    outcome, ref = requests.outcome_request(orjson.dumps({**body, "event": "click"}))
    assert (outcome.value, ref.model, outcome.occurred_at.isoformat()) == (1.0, "m", "2026-01-01T00:00:00+01:00")


def test_exactly_one_image_is_given() -> None:
    for images in ({}, {"image_base64": "QQ==", "thumbnail_url": "https://x.example/a.jpg"}):
        with pytest.raises(InvalidRequestError, match="exactly one"):
            requests.moderate_request(orjson.dumps({"content_id": "c", "title": "", **images}))


def test_many_faults_are_all_carried_and_the_text_stays_short() -> None:
    body = {"user_id": "u", "candidates": [1] * 200}
    with pytest.raises(InvalidRequestError, match="and 197 more") as caught:
        requests.rank_request(orjson.dumps(body), max_candidates=500)
    assert len(caught.value.problems) == 200
