"""A refused call on the wire, as the service that was called says it.

Texts: IAM User Guide, "Troubleshoot access denied error messages". Shapes: botocore's models and their protocols.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from xml.sax.saxutils import escape

import orjson
from botocore.loaders import Loader

from local.aws_json import Headers
from local.permissions.policy import Call, Decision

_BECAUSE: Final[Mapping[Decision, str]] = {
    Decision.DENIED: "with an explicit deny in an identity-based policy",
    Decision.NOT_ALLOWED: "because no identity-based policy allows the {action} action",
    Decision.OUT_OF_BOUNDARY: "because no permissions boundary allows the {action} action",
}
_MODELS: Final[Mapping[str, str]] = {"monitoring": "cloudwatch"}
_QUERY: Final = frozenset({"sns", "sts", "iam", "cloudformation", "autoscaling", "elasticache", "rds"})
_CODES: Final[Mapping[str, str]] = {"sns": "AuthorizationError"}


def text_of(arn: str, call: Call, decision: Decision) -> str:
    """Give the sentence of a refusal; an action that has no resource names none, S3 puts its own in quotes."""
    quote = '"' if call.action.startswith("s3:") else ""
    resource = "" if call.resource == "*" else f" on resource: {quote}{call.resource}{quote}"
    because = _BECAUSE[decision].format(action=call.action)
    return f"User: {arn} is not authorized to perform: {call.action}{resource} {because}"


def refusal(service: str, text: str, *, by_target: bool) -> tuple[int, Headers, bytes]:
    """Give status, headers and body; `by_target` for a call that its `X-Amz-Target` names."""
    if service == "s3":
        return 403, [(b"content-type", b"application/xml")], _xml("Error", _error("AccessDenied", text))
    if service in _QUERY:
        error = f"<Error><Type>Sender</Type>{_error(_CODES.get(service, 'AccessDenied'), text)}</Error>"
        return 403, [(b"content-type", b"text/xml")], _xml("ErrorResponse", error)
    code = "AccessDeniedException"
    body = orjson.dumps({"__type": code, "Message": text, "message": text})
    headers: Headers = [(b"x-amzn-errortype", code.encode())]
    if not by_target:
        return 403, [(b"content-type", b"application/json"), *headers], body
    if _answers_query_codes(service):
        headers.append((b"x-amzn-query-error", b"AccessDenied;Sender"))
    return 400, [(b"content-type", b"application/x-amz-json-1.1"), *headers], body


def _error(code: str, text: str) -> str:
    return f"<Code>{code}</Code><Message>{escape(text)}</Message>"


def _xml(root: str, content: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}>{content}</{root}>'.encode()


@lru_cache(maxsize=32)
def _answers_query_codes(service: str) -> bool:
    """Say whether a JSON service keeps the codes of its former query protocol for its clients."""
    loader = Loader()
    name = _MODELS.get(service, service)
    if name not in loader.list_available_services("service-2"):
        return False
    return "awsQueryCompatible" in loader.load_service_model(name, "service-2")["metadata"]
