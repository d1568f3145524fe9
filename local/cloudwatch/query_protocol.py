"""AWS's query protocol by botocore's model: flat parameters (`Metrics.member.1.Id=m1`) in, XML out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

from botocore.model import ListShape, MapShape, Shape, StructureShape


@dataclass(slots=True)
class _Flat:
    """Parameters whose names begin alike: the text of the one that ends here, and the others by what comes next."""

    text: str | None = None
    parts: dict[str, _Flat] = field(default_factory=dict)


def structured(params: Mapping[str, str], shape: Shape) -> dict[str, Any]:
    """Give the input of an operation; timestamps stay text.

    Args:
        params: names and values as they were sent, without Action and Version.
        shape: the operation's input.

    """
    root = _Flat()
    for name, text in params.items():
        place = root
        for part in name.split("."):
            place = place.parts.setdefault(part, _Flat())
        place.text = text
    found = _value(root, shape)
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


def _value(flat: _Flat, shape: Shape) -> Any:  # noqa: ANN401 - any parameter
    if isinstance(shape, StructureShape):
        members = shape.members.items()
        found = {name: _value(flat.parts[name], member) for name, member in members if name in flat.parts}
        return {name: value for name, value in found.items() if value is not None} or None
    if isinstance(shape, ListShape):
        entries = flat.parts["member"].parts if "member" in flat.parts else {}
        numbers = sorted((name for name in entries if name.isascii() and name.isdecimal()), key=lambda n: (len(n), n))
        return [_value(entries[number], shape.member) for number in numbers] or None
    return _scalar(flat.text, shape.type_name) if flat.text is not None else None


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
