"""Parameters of AWS's query protocol (`Metrics.member.1.Id=m1`) as the structure that they flatten."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from botocore.model import ListShape, Shape, StructureShape


def structured(params: Mapping[str, str], shape: Shape) -> dict[str, Any]:
    """Give the input of an operation; timestamps stay text.

    Args:
        params: names and values as they were sent, without Action and Version.
        shape: the operation's input.

    """
    found = _value(params, shape, "")
    return found if isinstance(found, dict) else {}


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
    if kind in {"integer", "long"}:
        return int(text)
    if kind in {"float", "double"}:
        return float(text)
    return text.lower() == "true" if kind == "boolean" else text
