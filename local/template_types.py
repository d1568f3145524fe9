"""What our CloudFormation resource types are made of: their form, and how a template's properties become a call."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from botocore.model import ListShape, MapShape, Shape, StructureShape

from local.aws_json import service_model
from serving.errors import LocalStackError

Properties = Mapping[str, Any]
Created = tuple[str, dict[str, str]]
"""A resource's physical id (what `Ref` gives) and its attributes (what `Fn::GetAtt` gives)."""

_NAME_LENGTH = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """How one type is made, changed and removed; all of `update`'s properties keep the physical id."""

    create: Callable[[str, Properties, str], Created]
    update: Callable[[str, Properties, Properties], Created]
    delete: Callable[[str, Properties], None]
    replacing: tuple[str, ...]


def request_of(properties: Properties, operation: str, *, service: str = "sagemaker") -> dict[str, Any]:
    """Turn a template's properties into the operation's parameters: those it has, numbers and booleans as such.

    Templates may carry numbers as text; which is which is said by botocore's model of the service.
    """
    shape = input_of(operation, service)
    known = {name: value for name, value in properties.items() if name in shape.members}
    converted = _convert(known, shape, operation)
    return dict(converted)


def input_of(operation: str, service: str) -> StructureShape:
    """Give the shape of an operation's parameters."""
    shape = service_model(service).operation_model(operation).input_shape
    if shape is None:
        raise LocalStackError(f"{service}.{operation}: got no input; allowed: an operation that takes one")
    return shape


def _convert(value: Any, shape: Shape, path: str) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(shape, StructureShape):
        if unknown := sorted(set(value) - set(shape.members)):
            raise LocalStackError(
                f"{path}: got {unknown[0]}; allowed: {', '.join(shape.members)}; correct the template"
            )
        return {name: _convert(item, shape.members[name], f"{path}.{name}") for name, item in value.items()}
    if isinstance(shape, ListShape):
        return [_convert(item, shape.member, path) for item in value]
    if isinstance(shape, MapShape):
        return {key: _convert(item, shape.value, f"{path}.{key}") for key, item in value.items()}
    return _SCALARS.get(shape.type_name, str)(value)


def _boolean(value: object) -> bool:
    return value if isinstance(value, bool) else str(value).lower() == "true"


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": _boolean,
}


def generated_name(stack: str, logical_id: str) -> str:
    """Give a name as CloudFormation makes one: stack, logical id and chance, within SageMaker's 63 characters."""
    suffix = secrets.token_hex(6)
    return f"{f'{stack}-{logical_id}'[: _NAME_LENGTH - len(suffix) - 1]}-{suffix}"


def call(client: Any, operation: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - as botocore takes them
    """Call an operation by AWS's name for it."""
    method = next(name for name, api in client.meta.method_to_api_mapping.items() if api == operation)
    return dict(getattr(client, method)(**parameters))


def is_missing(error: ClientError) -> bool:
    """Say whether SageMaker refused a call since there is no such thing."""
    details = error.response["Error"]
    return details["Code"] == "ValidationException" and details["Message"].startswith("Could not find")


def name_of(arn: str) -> str:
    """Give the name at the end of a resource name."""
    return arn.rpartition("/")[2]
