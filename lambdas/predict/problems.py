"""Errors to RFC 9457 problem documents: the one table of status codes and stable types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from serving.errors import (
    DeadlineExceededError,
    EndpointError,
    InvalidRequestError,
    ModelFailedError,
    NotAvailableError,
    OverloadedError,
    StreamHubError,
    TelemetryError,
)

PROBLEM_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:streamhub:problem:"
RETRY_AFTER_S = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of problem: `name` is its stable type after `TYPE_PREFIX`."""

    name: str
    status: int
    title: str
    comes_back: bool = False


INVALID = Kind(name="invalid-request", status=422, title="The request has faults")
TOO_LARGE = Kind(name="body-too-large", status=413, title="The body is too large")
NO_ROUTE = Kind(name="unknown-route", status=404, title="There is no such route")
NO_METHOD = Kind(name="method-not-allowed", status=405, title="The route has another method")
NOT_AVAILABLE = Kind(name="not-available", status=501, title="Not available in this stage")
NO_STREAM = Kind(name="streaming-unavailable", status=501, title="Streams are not available here")
OVERLOADED = Kind(name="overloaded", status=503, title="Too much to do; come back", comes_back=True)
LATE = Kind(name="deadline-exceeded", status=503, title="The answer would be too late", comes_back=True)
UNREACHABLE = Kind(name="endpoint-unavailable", status=503, title="The model cannot be reached", comes_back=True)
NOT_STORED = Kind(name="not-stored", status=503, title="It could not be stored; send it again", comes_back=True)
MODEL_FAILED = Kind(name="model-failed", status=502, title="The model failed")
INTERNAL = Kind(name="internal", status=500, title="A fault of the service")

KINDS = (
    INVALID,
    TOO_LARGE,
    NO_ROUTE,
    NO_METHOD,
    NOT_AVAILABLE,
    NO_STREAM,
    OVERLOADED,
    LATE,
    UNREACHABLE,
    NOT_STORED,
    MODEL_FAILED,
    INTERNAL,
)
_OF_ERROR: tuple[tuple[type[StreamHubError], Kind], ...] = (
    (InvalidRequestError, INVALID),
    (OverloadedError, OVERLOADED),
    (DeadlineExceededError, LATE),
    (ModelFailedError, MODEL_FAILED),
    (NotAvailableError, NOT_AVAILABLE),
    (EndpointError, UNREACHABLE),
    (TelemetryError, NOT_STORED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One HTTP answer, as both shells send it."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def reply_of(error: StreamHubError) -> Reply:
    """Give the problem document of an error; one that the table does not know tells the client nothing inside."""
    kind = next((kind for cls, kind in _OF_ERROR if isinstance(error, cls)), INTERNAL)
    if kind is INTERNAL:
        return problem(kind, "the service could not do this; its log says why")
    errors = [
        {"field": row.key, "got": row.got, "allowed": row.allowed, "fix": row.fix}
        for row in (error.problems if isinstance(error, InvalidRequestError) else ())
    ]
    after_s = error.retry_after_s if isinstance(error, OverloadedError) else RETRY_AFTER_S
    return problem(kind, str(error), errors=errors, retry_after_s=after_s)


def problem(
    kind: Kind,
    detail: str,
    *,
    errors: list[dict[str, str]] | None = None,
    retry_after_s: float = RETRY_AFTER_S,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Give one problem document."""
    document: dict[str, object] = {
        "type": TYPE_PREFIX + kind.name,
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
    }
    if errors:
        document["errors"] = errors
    retry = {"Retry-After": str(max(1, round(retry_after_s)))} if kind.comes_back else {}
    return Reply(
        status=kind.status,
        body=orjson.dumps(document),
        content_type=PROBLEM_TYPE,
        headers={**retry, **(headers if headers is not None else {})},
    )
