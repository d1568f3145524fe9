"""Frozen types to JSON and back, and TOML tables to frozen types; strict: no coercion, no unknown keys.

The only home of cattrs. A number is never made of a string, an integer never of 1.9; 1 is a legal float.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from functools import cache
from types import GenericAlias
from typing import Any, Literal, TypeVar, get_args, get_origin

import orjson
from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, mapping_structure_factory

from serving.spec.runtime import PyTorchRuntime, Runtime, TritonRuntime, VllmRuntime

T = TypeVar("T")

_RUNTIMES: dict[str, type[Runtime]] = {"triton": TritonRuntime, "vllm": VllmRuntime, "pytorch": PyTorchRuntime}


class FieldError(ValueError):
    """One value of the wrong kind: what it may be, and what it is."""

    def __init__(self, allowed: str, got: object) -> None:
        self.allowed = allowed
        self.got = got
        super().__init__(f"allowed {allowed}, got {got!r}")


@dataclass(frozen=True, slots=True)
class Failure:
    """One value that does not fit: its dotted key, what it is, what it may be."""

    key: str
    got: str
    allowed: str


def _exactly(kind: type, name: str) -> Callable[[object, object], object]:
    def structure(value: object, _: object) -> object:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind or (isinstance(value, float) and not math.isfinite(value)):
            raise FieldError(name, value)
        return value

    return structure


def _enum(value: object, cls: type[Enum]) -> Enum:
    try:
        return cls(value)
    except ValueError:
        raise FieldError(f"one of {', '.join(str(member.value) for member in cls)}", value) from None


def _literal(value: object, cls: object) -> object:
    if value not in get_args(cls):
        raise FieldError(f"one of {', '.join(map(str, get_args(cls)))}", value)
    return value


def _is_literal(cls: object) -> bool:
    origin: object = get_origin(cls)
    return origin is Literal


def _is_tuple(cls: object) -> bool:
    origin: object = get_origin(cls)
    return origin is tuple


def _is_mapping(cls: object) -> bool:
    origin: object = get_origin(cls)
    return origin is dict


def _table(cls: type, made: Converter) -> Callable[[object, object], object]:
    inner: Callable[[Any, Any], object] = make_dict_structure_fn(cls, made, _cattrs_forbid_extra_keys=True)

    def structure(value: object, kind: object) -> object:
        if not isinstance(value, dict):
            raise FieldError("a table", value)
        return inner(value, kind)

    return structure


def _mapping(cls: Any, made: Converter) -> Callable[[object, object], object]:  # noqa: ANN401 - dict[str, any type]
    inner: Callable[[Any, Any], object] = mapping_structure_factory(cls, made)

    def structure(value: object, kind: object) -> object:
        if not isinstance(value, dict):
            raise FieldError("a table", value)
        return inner(value, kind)

    return structure


def _sequence(cls: object, made: Converter) -> Callable[[object, object], object]:
    """A list for a tuple: a text has items too, and must not become a tuple of its letters."""
    kinds = get_args(cls)
    count = None if kinds[-1] is Ellipsis else len(kinds)
    items: Any = GenericAlias(list, kinds[:1])

    def structure(value: object, _: object) -> object:
        if not isinstance(value, list | tuple) or count not in {None, len(value)}:
            raise FieldError("a list" if count is None else f"a list of {count}", value)
        return tuple(made.structure(list(value), items))

    return structure


def _runtime(value: object, _: object) -> Runtime:
    kind = value.get("kind") if isinstance(value, dict) else value
    cls = _RUNTIMES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise FieldError(f"a table with kind = one of {', '.join(_RUNTIMES)}", kind)
    return converter().structure(value, cls)


@cache
def converter() -> Converter:
    """Give the one converter of the project."""
    made = Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind, name in ((int, "an integer"), (float, "a finite number"), (str, "a string"), (bool, "true or false")):
        made.register_structure_hook(kind, _exactly(kind, name))
    made.register_structure_hook_func(lambda cls: cls is object, lambda value, _: value)  # JSON that others define
    made.register_structure_hook(datetime, lambda value, _: datetime.fromisoformat(value))
    made.register_unstructure_hook(datetime, lambda value: value.isoformat())
    made.register_structure_hook(timedelta, lambda value, _: timedelta(seconds=value))
    made.register_unstructure_hook(timedelta, timedelta.total_seconds)
    # by its own class: a StrEnum is a str too, whose hook would take any text
    made.register_structure_hook(StrEnum, _enum)
    made.register_structure_hook_func(lambda cls: cls == Runtime, _runtime)
    made.register_structure_hook_func(_is_literal, _literal)
    made.register_structure_hook_factory(_is_tuple, lambda cls: _sequence(cls, made))
    made.register_structure_hook_factory(_is_mapping, lambda cls: _mapping(cls, made))
    made.register_structure_hook_factory(
        lambda cls: isinstance(cls, type) and is_dataclass(cls), lambda cls: _table(cls, made)
    )
    return made


def to_json(value: object) -> bytes:
    """Encode any of the frozen types; keys sorted, so equal values give equal bytes."""
    return orjson.dumps(converter().unstructure(value), option=orjson.OPT_SORT_KEYS)


def from_json(data: bytes, cls: type[T]) -> T:
    """Decode what `to_json` wrote.

    Raises:
        ValueError: the bytes are no JSON, or not of that type.

    """
    try:
        return converter().structure(orjson.loads(data), cls)
    except BaseValidationError as error:
        raise ValueError("; ".join(f"{row.key}: got {row.got}" for row in failures(error))) from error


def failures(error: BaseException, path: str = "") -> Iterator[Failure]:
    """Flatten a cattrs error into one row a wrong value, all of them."""
    if isinstance(error, BaseValidationError):
        for inner in error.exceptions:
            yield from failures(inner, _step(path, inner))
    elif isinstance(error, ForbiddenExtraKeysError):
        known = ", ".join(sorted(field.name for field in fields(error.cl)))
        for key in sorted(error.extra_fields):
            yield Failure(f"{path}.{key}" if path else key, "an unknown key", f"keys {known}")
    elif isinstance(error, KeyError):
        yield Failure(path, "nothing", "a value: the key is required")
    elif isinstance(error, FieldError):
        yield Failure(path, repr(error.got), error.allowed)
    else:
        yield Failure(path, f"an unusable value ({error})", "a value of the documented type")


def _step(path: str, inner: BaseException) -> str:
    for note in getattr(inner, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return f"{path}.{note.name}" if path else note.name
        if isinstance(note, IterableValidationNote):
            return f"{path}[{note.index!r}]"
    return path
