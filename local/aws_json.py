"""The AWS JSON 1.1 protocol over ASGI, held to botocore's own model of the service.

A request is refused as AWS refuses it; an answer that does not fit the model is a bug of ours and answers 500.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from functools import lru_cache
from typing import Any

import orjson
from botocore.loaders import Loader
from botocore.model import ListShape, MapShape, ServiceModel, Shape, StringShape, StructureShape
from botocore.validate import ParamValidator

from serving.errors import LocalStackError

Json = dict[str, Any]
Handler = Callable[[Json], Json]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

CONTENT_TYPE = b"application/x-amz-json-1.1"
_READS = ("Describe", "List")
_log = logging.getLogger(__name__)


class AwsError(LocalStackError):
    """An error as an AWS service answers it: a code that clients match on, a text, an HTTP status."""

    def __init__(self, code: str, message: str, *, status: int = 400) -> None:
        self.code = code
        self.status = status
        super().__init__(message)


class ValidationError(AwsError):
    """Wrong parameters, or a state that forbids the call."""

    def __init__(self, message: str) -> None:
        super().__init__("ValidationException", message)


@lru_cache(maxsize=4)
def service_model(service: str) -> ServiceModel:
    """Give botocore's model of a service, the one that boto3 speaks."""
    return ServiceModel(Loader().load_service_model(service, "service-2"), service_name=service)


async def read_body(receive: Receive, *, limit: int | None = None) -> bytes | None:
    """Give the request's body, or None if the client left or sent more than `limit` bytes."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if limit is None or size <= limit:
            chunks.append(chunk)
        if not message.get("more_body", False):
            break
    if limit is not None and size > limit:
        return None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def send_answer(send: Send, *, status: int, headers: Headers, body: bytes) -> None:
    """Send one whole answer."""
    ours = ((b"content-length", b"%d" % len(body)), (b"x-amzn-requestid", str(uuid.uuid4()).encode()))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *ours]})
    await send({"type": "http.response.body", "body": body})


def header(scope: Scope, name: bytes) -> str | None:
    """Give the first header of that lower-case name."""
    for key, value in scope["headers"]:
        if key.lower() == name:
            return str(value.decode("latin-1"))
    return None


class JsonService:
    """Operations of one service by name; `answer` takes what stands behind `X-Amz-Target`."""

    def __init__(self, service: str, operations: Mapping[str, Handler]) -> None:
        self._model = service_model(service)
        self._operations = operations
        self.target_prefix = str(self._model.metadata["targetPrefix"])

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        body = await read_body(receive)
        if body is None:
            return
        status, answer = self.answer(header(scope, b"x-amz-target") or "", body)
        await send_answer(send, status=status, headers=[(b"content-type", CONTENT_TYPE)], body=answer)

    def answer(self, target: str, body: bytes) -> tuple[int, bytes]:
        """Give status and body of one call."""
        try:
            return 200, orjson.dumps(self._call(target.rpartition(".")[2], body))
        except AwsError as error:
            return error.status, orjson.dumps({"__type": error.code, "message": str(error)})
        except Exception as error:  # noqa: BLE001 - whatever fails here, the client gets an AWS answer
            _log.exception("%s failed", target)
            return 500, orjson.dumps({"__type": "InternalFailure", "message": f"{type(error).__name__}: {error}"})

    def _call(self, name: str, body: bytes) -> Json:
        handler = self._operations.get(name)
        if handler is None:
            raise AwsError(
                "UnknownOperationException",
                f"{self.target_prefix}.{name}: not in the local stack, which has {', '.join(sorted(self._operations))}",
            )
        operation = self._model.operation_model(name)
        params = _parse(body)
        if operation.input_shape is not None:
            check(params, operation.input_shape)
        result = handler(params)
        if not name.startswith(_READS):
            _log.info("%s.%s %s", self.target_prefix, name, orjson.dumps(params).decode())
        if operation.output_shape is not None:
            try:
                check(result, operation.output_shape)
            except ValidationError as error:
                raise LocalStackError(f"the answer does not fit the model of {name}: {error}") from error
        return result


def _parse(body: bytes) -> Json:
    try:
        params = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise AwsError("SerializationException", f"the body is no JSON: {error}") from error
    if not isinstance(params, dict):
        raise AwsError("SerializationException", "the body must be a JSON object")
    return params


def check(params: Json, shape: Shape) -> None:
    """Raise ValidationException unless the parameters fit: kinds and names by botocore, ranges and patterns here."""
    report = ParamValidator().validate(params, shape)
    problems = [report.generate_report()] if report.has_errors() else list(_constraints(params, shape, ""))
    if problems:
        plural = "s" if len(problems) > 1 else ""
        raise ValidationError(f"{len(problems)} validation error{plural} detected: {'; '.join(problems)}")


def _constraints(value: Any, shape: Shape, path: str) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    if isinstance(shape, StructureShape):
        for name in shape.members.keys() & value.keys():
            yield from _constraints(value[name], shape.members[name], f"{path}.{name}" if path else name)
    elif isinstance(shape, ListShape):
        yield from _bounds(len(value), shape, path, "length")
        for number, item in enumerate(value, start=1):
            yield from _constraints(item, shape.member, f"{path}.{number}.member")
    elif isinstance(shape, MapShape):
        yield from _bounds(len(value), shape, path, "length")
        for key, item in value.items():
            yield from _constraints(item, shape.value, f"{path}.{key}")
    elif isinstance(shape, StringShape):
        yield from _text(str(value), shape, path)
    elif shape.type_name in {"integer", "long", "float", "double"}:
        yield from _bounds(value, shape, path, "value")


def _text(value: str, shape: StringShape, path: str) -> Iterator[str]:
    failed = f"Value '{value}' at '{path}' failed to satisfy constraint: Member must"
    if shape.enum and value not in shape.enum:
        yield f"{failed} satisfy enum value set: [{', '.join(shape.enum)}]"
        return
    yield from _bounds(len(value), shape, path, "length")
    pattern = _compiled(str(shape.metadata.get("pattern", "")))
    if pattern is not None and not pattern.fullmatch(value):
        yield f"{failed} satisfy regular expression pattern: {shape.metadata['pattern']}"


def _bounds(size: float, shape: Shape, path: str, what: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    failed = f"Value at '{path}' failed to satisfy constraint: Member must have {what}"
    if least is not None and size < least:
        yield f"{failed} greater than or equal to {least}"
    if most is not None and size > most:
        yield f"{failed} less than or equal to {most}"


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    if not pattern:
        return None
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error:
        return None  # Java's classes such as \p{L}, which Python lacks; they allow nearly everything
