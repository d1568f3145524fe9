"""The published description of the API, from the same schemas that bodies are checked with."""

from __future__ import annotations

from lambdas.predict.problems import KINDS, PROBLEM_TYPE, TYPE_PREFIX
from serving.prediction import schemas
from serving.prediction.types import Action
from serving.prediction.validation import Schema

Document = dict[str, object]

_TEXT = {"type": "string"}
_SCORE = {"type": ["number", "null"], "description": "null: a fallback answered, no model did."}
_COMMON = {
    "prediction_id": {"type": "string", "maxLength": 200, "description": "Send it back with outcomes."},
    "model_version": _TEXT,
    "variant": {"type": "string", "enum": ["a", "b"]},
    "degraded": {"type": "array", "items": _TEXT, "description": "What was replaced; absent when nothing was."},
}
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "enum": [TYPE_PREFIX + kind.name for kind in KINDS]},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "errors": {
            "type": "array",
            "items": {"type": "object", "properties": dict.fromkeys(("field", "got", "allowed", "fix"), _TEXT)},
        },
    },
}
_ITEM = {"type": "object", "required": ["video_id", "score"], "properties": {"video_id": _TEXT, "score": _SCORE}}
_SCORES = {"type": ["object", "null"], "additionalProperties": {"type": "number"}}


def openapi_document() -> Document:
    """Give the OpenAPI 3.1 document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "StreamHub predictions",
            "version": "1.0.0",
            "description": "Deployed behind an HTTP API, every POST is signed (IAM); on one machine the API is open.",
        },
        "paths": {
            "/v1/rank": _post(
                "Order candidate videos for a user",
                schemas.rank_schema(),
                _answer({"items": {"type": "array", "items": _ITEM}}),
            ),
            "/v1/moderate": _post(
                "Score an image and its title",
                schemas.MODERATE,
                _answer({"scores": _SCORES, "action": {"type": "string", "enum": [*Action]}}),
            ),
            "/v1/thumbnail-score": _post(
                "Score the quality of an image", schemas.THUMBNAIL_SCORE, _answer({"score": _SCORE})
            ),
            "/v1/thumbnail-score/batch": _post("Not available yet: answers a problem", {"type": "object"}, None),
            "/v1/support/answer": _post("Answer a question from passages", schemas.SUPPORT, _answer({"answer": _TEXT})),
            "/v1/outcomes": _post(
                "Say what happened after a prediction; the same event counts once", schemas.OUTCOME, _accepted(), "202"
            ),
            "/healthz": {"get": {"summary": "The API is up", "responses": {"200": _json({"type": "object"})}}},
            "/openapi.json": {"get": {"summary": "This document", "responses": {"200": _json({"type": "object"})}}},
        },
        "components": {"schemas": {"Problem": _PROBLEM}},
    }


def _post(summary: str, body: Schema, answer: Schema | None, status: str = "200") -> Document:
    problems = {
        "description": "A problem (RFC 9457)",
        "headers": {"Retry-After": {"description": "Seconds, with status 503.", "schema": {"type": "integer"}}},
        "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    good = {status: _json(answer)} if answer is not None else {}
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {**good, "default": problems},
        }
    }


def _answer(fields: dict[str, Schema]) -> Schema:
    required = ["prediction_id", "model_version", "variant", *fields]
    return {"type": "object", "required": required, "properties": {**_COMMON, **fields}, "additionalProperties": False}


def _accepted() -> Schema:
    properties = {"prediction_id": _TEXT, "event": _TEXT, "counted": {"type": "boolean"}}
    return {"type": "object", "required": list(properties), "properties": properties}


def _json(schema: Schema) -> Document:
    return {"description": "The answer", "content": {"application/json": {"schema": schema}}}
