"""Checks a JSON value against the small part of JSON Schema that request bodies use; every fault at once.

One declaration serves the check and the published description, so that they cannot differ. Keywords: `type` (one or a
list), `enum`, `minLength`, `maxLength`, `minimum`, `maximum`, `minItems`, `maxItems`, `uniqueItems` (of texts),
`items`, `properties`, `required`, `additionalProperties: false`; `description` and `format` are for readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from serving.errors import Problem

Schema = Mapping[str, Any]

BODY = "body"
_SHOWN_CHARACTERS = 60
_BOUNDS: tuple[tuple[str, str, Callable[[Any, Any], bool]], ...] = (
    ("minimum", "a number of at least {}", lambda value, limit: value >= limit),
    ("maximum", "a number of at most {}", lambda value, limit: value <= limit),
)
_SIZES: tuple[tuple[str, str, str, Callable[[int, int], bool]], ...] = (
    ("string", "minLength", "at least {} characters", lambda size, limit: size >= limit),
    ("string", "maxLength", "at most {} characters", lambda size, limit: size <= limit),
    ("array", "minItems", "at least {} items", lambda size, limit: size >= limit),
    ("array", "maxItems", "at most {} items", lambda size, limit: size <= limit),
)
_NAMES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}


def faults(value: object, schema: Schema, path: str = "") -> Iterator[Problem]:
    """Give every place where the value breaks the schema."""
    kind = _NAMES[type(value)]
    allowed = schema.get("type", ())
    kinds: list[str] = [allowed] if isinstance(allowed, str) else list(allowed)
    if kinds and kind not in kinds and not (kind == "integer" and "number" in kinds):
        yield fault(path, value, " or ".join(kinds))
        return
    if "enum" in schema and value not in schema["enum"]:
        yield fault(path, value, f"one of {', '.join(map(str, schema['enum']))}")
    if kind in {"integer", "number"}:
        yield from _beyond(value, schema, path)
    elif kind in {"string", "array"}:
        yield from _sizes(value, kind, schema, path)
    if isinstance(value, list):
        yield from _items(value, schema, path)
    elif isinstance(value, dict):
        yield from _properties(value, schema, path)


def fault(path: str, got: object, allowed: str) -> Problem:
    """Say one fault of a body."""
    key = path or BODY
    return Problem(BODY, key, _short(got), allowed, f"correct {key}")


def _beyond(value: object, schema: Schema, path: str) -> Iterator[Problem]:
    for keyword, text, fits in _BOUNDS:
        if keyword in schema and not fits(value, schema[keyword]):
            yield fault(path, value, text.format(schema[keyword]))


def _sizes(value: Any, kind: str, schema: Schema, path: str) -> Iterator[Problem]:  # noqa: ANN401 - a text or a list: both have a length
    for where, keyword, text, fits in _SIZES:
        if where == kind and keyword in schema and not fits(len(value), schema[keyword]):
            yield fault(path, f"{len(value)}", text.format(schema[keyword]))


def _items(value: list[object], schema: Schema, path: str) -> Iterator[Problem]:
    inner = schema.get("items")
    if inner is not None and not _all_fit(value, inner):
        for index, item in enumerate(value):
            yield from faults(item, inner, f"{path}[{index}]")
    if schema.get("uniqueItems"):
        texts = [item for item in value if isinstance(item, str)]
        if len(set(texts)) != len(texts):  # before the slower look for which
            twice = next(text for index, text in enumerate(texts) if text in texts[:index])
            yield fault(path, f"{twice!r} twice", "each item once")


def _all_fit(value: list[object], inner: Schema) -> bool:
    """Say quickly that a list of texts has no fault: 500 candidates are not looked at one by one."""
    if inner.get("type") != "string" or "enum" in inner or set(map(type, value)) != {str}:
        return False
    sizes: set[int] = set(map(len, value))  # type: ignore[arg-type]
    least, most = inner.get("minLength", 0), inner.get("maxLength", max(sizes))
    return bool(least <= min(sizes) and max(sizes) <= most)


def _properties(value: dict[str, object], schema: Schema, path: str) -> Iterator[Problem]:
    known = schema.get("properties", {})
    at = f"{path}." if path else ""
    for key in schema.get("required", ()):
        if key not in value:
            yield fault(f"{at}{key}", "nothing", "a value: the field is required")
    for key, item in value.items():
        if key in known:
            yield from faults(item, known[key], f"{at}{key}")
        elif schema.get("additionalProperties") is False:
            yield fault(f"{at}{key[:_SHOWN_CHARACTERS]}", "an unknown field", f"fields {', '.join(known)}")


def _short(got: object) -> str:
    text = got if isinstance(got, str) else repr(got)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
