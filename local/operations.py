"""Which operation of which AWS service a request is, by botocore's models: target, form, or method and path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import orjson
from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel

from local.aws_json import Scope, header

_CREDENTIAL: Final = re.compile(r"Credential=([^/,\s]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")
_PRESIGNED: Final = b"X-Amz-Credential"
_FORM: Final = "application/x-www-form-urlencoded"
_REST: Final[Mapping[str, str]] = {
    "s3": "s3",
    "sagemaker": "sagemaker-runtime",
    "lambda": "lambda",
    "scheduler": "scheduler",
}
"""The model of services that are told by method and path, by the name in a signature's scope."""
_BY_PATH_ALONE: Final = frozenset(_REST) - {"sagemaker"}


@dataclass(frozen=True, slots=True)
class Signature:
    """Who signed a request, for which region and service."""

    access_key: str
    region: str
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an operation is told by; header names are lower-case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of an API: `parameters` by the names of its model."""

    service: str
    name: str
    parameters: Mapping[str, Any]


def signature_of(scope: Scope) -> Signature | None:
    """Give who signed a request, by header or by a presigned address; None for nobody."""
    signed = header(scope, b"authorization") or ""
    if _PRESIGNED in (query := scope.get("query_string", b"")):
        presigned = dict(parse_qsl(query.decode("latin-1"))).get(_PRESIGNED.decode())
        signed = f"Credential={presigned}" if presigned is not None else signed
    found = _CREDENTIAL.search(signed)
    return Signature(*found.groups()) if found is not None else None


def request_of(scope: Scope, body: bytes = b"") -> Request:
    """Give an ASGI scope of type http as a request."""
    query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    raw = scope.get("raw_path") or str(scope["path"]).encode()
    path = raw.decode("latin-1").partition("?")[0]
    return Request(method=str(scope["method"]), path=path, query=dict(query), headers=headers, body=body)


def needs_body(service: str, request: Request) -> bool:
    """Say whether the operation, or what it is about, stands in the body."""
    if service == "s3":
        return request.method == "POST" and "delete" in request.query
    return service not in _BY_PATH_ALONE and (service not in _REST or "x-amz-target" in request.headers)


def operation_of(service: str, request: Request) -> Operation | None:
    """Give the operation, None for what is none."""
    target = request.headers.get("x-amz-target")
    if target is not None and service not in _BY_PATH_ALONE:
        return Operation(service, target.rpartition(".")[2], _json(request.body))
    if service in _REST:
        return _by_path(service, request)
    form = dict(request.query)
    if request.headers.get("content-type", "").startswith(_FORM):
        form |= dict(parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True))
    return Operation(service, form["Action"], form) if "Action" in form else None


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        document = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    name: str
    method: str
    path: re.Pattern[str]
    query: Mapping[str, str]
    required: tuple[tuple[str, str], ...]
    """Where and under which name a required parameter stands that is not in the path."""
    members: Mapping[str, str]
    """Parameters of the query string, by their name there."""

    def parameters(self, request: Request) -> Mapping[str, Any] | None:
        if request.method != self.method or (found := self.path.fullmatch(request.path)) is None:
            return None
        if any(request.query.get(name) != value for name, value in self.query.items()):
            return None
        places = {"querystring": request.query, "header": request.headers}
        if any(name not in places[place] for place, name in self.required):
            return None
        asked = {member: request.query[name] for name, member in self.members.items() if name in request.query}
        return {**{name: unquote(value) for name, value in found.groupdict().items()}, **asked}


def _by_path(service: str, request: Request) -> Operation | None:
    for route in _routes(_REST[service]):
        parameters = route.parameters(request)
        if parameters is not None:
            return Operation(service, route.name, parameters)
    return None


@lru_cache(maxsize=len(_REST))
def _routes(service: str) -> tuple[_Route, ...]:
    """Give a service's operations, those first that ask most of a request."""
    model = ServiceModel(Loader().load_service_model(service, "service-2"), service_name=service)
    found = [_route(model.operation_model(name)) for name in model.operation_names]
    return tuple(sorted(found, key=lambda route: (-len(route.query) - len(route.required), route.path.pattern)))


def _route(operation: OperationModel) -> _Route:
    path, _, query = str(operation.http["requestUri"]).partition("?")
    shape = operation.input_shape
    members = dict(shape.members) if shape is not None else {}
    located = {
        name: (part.serialization.get("location"), part.serialization.get("name", name))
        for name, part in members.items()
    }
    required = [located[name] for name in (shape.required_members if shape is not None else [])]
    return _Route(
        name=operation.name,
        method=str(operation.http["method"]),
        path=re.compile(_pattern(path)),
        query=dict(parse_qsl(query, keep_blank_values=True)),
        required=tuple(
            (place, name.lower() if place == "header" else name)
            for place, name in required
            if place in {"querystring", "header"}
        ),
        members={name: member for member, (place, name) in located.items() if place == "querystring"},
    )


def _pattern(path: str) -> str:
    """Give a pattern for `/{Bucket}/{Key+}`; a greedy name takes slashes too."""
    parts = re.split(r"\{([^}]+)\}", path)
    texts, names = parts[::2], parts[1::2]
    groups = [f"(?P<{name.rstrip('+')}>{'.+' if name.endswith('+') else '[^/]+'})" for name in names]
    whole = "".join(re.escape(text) + group for text, group in zip(texts, [*groups, ""], strict=True))
    return whole.rstrip("/") + "/?"
