"""AWS's query protocol by botocore's model: flat parameters (`Metrics.member.1.Id=m1`) in, XML out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from xml.sax.saxutils import escape

from botocore.model import ListShape, MapShape, Shape, StructureShape


def structured(params: Mapping[str, str], shape: Shape) -> dict[str, Any]:
    """Give the input of an operation; timestamps stay text.

    Args:
        params: names and values as they were sent, without Action and Version.
        shape: the operation's input.

    """
    found = _value(params, shape, "")
    return found if isinstance(found, dict) else {}


def with_timestamps(value: Any, shape: Shape, convert: Callable[[float], Any]) -> Any:  # noqa: ANN401 - any answer
    """Give a copy of an answer in which every timestamp is converted."""
    if isinstance(shape, StructureShape):
        return {name: with_timestamps(item, shape.members[name], convert) for name, item in value.items()}
    if isinstance(shape, ListShape):
        return [with_timestamps(item, shape.member, convert) for item in value]
    return convert(value) if shape.type_name == "timestamp" else value


def as_xml(value: Any, shape: Shape) -> str:  # noqa: ANN401 - any answer
    """Give what stands between the tags of a value."""
    if isinstance(shape, StructureShape):
        return "".join(f"<{name}>{as_xml(item, shape.members[name])}</{name}>" for name, item in value.items())
    if isinstance(shape, ListShape):
        return "".join(f"<member>{as_xml(item, shape.member)}</member>" for item in value)
    if isinstance(shape, MapShape):
        pairs = ((as_xml(key, shape.key), as_xml(item, shape.value)) for key, item in value.items())
        return "".join(f"<entry><key>{key}</key><value>{item}</value></entry>" for key, item in pairs)
    return escape(str(value))


def _value(params: Mapping[str, str], shape: Shape, path: str) -> Any:  # noqa: ANN401 - any parameter
    if isinstance(shape, StructureShape):
        members = {
            name: _value(params, member, f"{path}.{name}" if path else name) for name, member in shape.members.items()
        }
        given = {name: value for name, value in members.items() if value is not None}
        return given if given or not path else None
    if isinstance(shape, ListShape):
        numbers = sorted({int(found[1]) for name in params if (found := _index(path).match(name))})
        items = [_value(params, shape.member, f"{path}.member.{number}") for number in numbers]
        return items or None
    return _scalar(params[path], shape.type_name) if path in params else None


def _index(path: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(path)}\.member\.([0-9]+)(?:\.|$)", re.ASCII)


def _scalar(text: str, kind: str) -> Any:  # noqa: ANN401 - any parameter
    """Give a number or a truth as such; text that is none stays text, which the model then refuses."""
    try:
        if kind in {"integer", "long"}:
            return int(text)
        if kind in {"float", "double"}:
            return float(text)
    except ValueError:
        return text
    return text.lower() == "true" if kind == "boolean" else text
