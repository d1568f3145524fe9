"""The bodies that the API takes, as JSON Schema: what `requests` checks and what `/openapi.json` publishes."""

from __future__ import annotations

from serving.prediction.images import MAX_IMAGE_BYTES
from serving.prediction.validation import Schema

MAX_ID_CHARACTERS = 128
MAX_TITLE_CHARACTERS = 1_000
MAX_QUESTION_CHARACTERS = 4_000
MAX_PASSAGES = 20
MAX_PASSAGE_CHARACTERS = 4_000
MAX_CANDIDATES = 500
MAX_WATCH_S = 86_400
DEVICES = ("mobile", "tablet", "desktop", "tv")
EVENTS = ("click", "watch", "label")
_BASE64_CHARACTERS = (MAX_IMAGE_BYTES + 2) // 3 * 4

_ID = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS}
_IMAGE = {
    "image_base64": {
        "type": "string",
        "minLength": 1,
        "maxLength": _BASE64_CHARACTERS,
        "description": "JPEG, PNG, WebP or GIF, standard base 64. Give this or thumbnail_url.",
    },
    "thumbnail_url": {
        "type": "string",
        "minLength": 1,
        "maxLength": 2_048,
        "description": "Give this or image_base64.",
    },
}
_CONTEXT = {
    "type": "object",
    "description": "Where and when; what is left out is taken from the time of the request (UTC) and a desktop.",
    "properties": {
        "hour": {"type": "integer", "minimum": 0, "maximum": 23, "description": "Hour of the user's day."},
        "device": {"type": "string", "enum": list(DEVICES)},
        "weekend": {"type": "boolean"},
    },
    "additionalProperties": False,
}


def _unit(what: str) -> Schema:
    return {
        "type": ["string", "null"],
        "minLength": 1,
        "maxLength": MAX_ID_CHARACTERS,
        "description": f"{what}; decides the variant. null: none, the endpoint's weights decide.",
    }


def _object(properties: dict[str, Schema], *, required: tuple[str, ...]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def rank_schema(max_candidates: int = MAX_CANDIDATES) -> Schema:
    """Give the body of `/v1/rank`."""
    candidates = {"type": "array", "items": _ID, "minItems": 1, "maxItems": max_candidates, "uniqueItems": True}
    return _object(
        {"user_id": _unit("The user"), "candidates": candidates, "context": _CONTEXT},
        required=("user_id", "candidates"),
    )


MODERATE: Schema = _object(
    {
        "content_id": _unit("The content"),
        "title": {"type": "string", "maxLength": MAX_TITLE_CHARACTERS},
        **_IMAGE,
    },
    required=("content_id", "title"),
)
THUMBNAIL_SCORE: Schema = _object({"content_id": _unit("The content"), **_IMAGE}, required=("content_id",))
SUPPORT: Schema = _object(
    {
        "session_id": _unit("The session"),
        "question": {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION_CHARACTERS},
        "passages": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": MAX_PASSAGE_CHARACTERS},
            "maxItems": MAX_PASSAGES,
            "description": "Retrieved texts that the answer is to rest on.",
        },
        "stream": {"type": "boolean", "description": "true: server-sent events."},
    },
    required=("session_id", "question"),
)
OUTCOME: Schema = _object(
    {
        "prediction_id": {"type": "string", "minLength": 1, "maxLength": 200},
        "event": {"type": "string", "enum": list(EVENTS)},
        "value": {
            "type": "number",
            "minimum": 0,
            "maximum": MAX_WATCH_S,
            "description": "click: 1, or left out; watch: seconds; label: 0 to 1.",
        },
        "occurred_at": {"type": "string", "format": "date-time", "description": "With its offset from UTC."},
    },
    required=("prediction_id", "event", "occurred_at"),
)
