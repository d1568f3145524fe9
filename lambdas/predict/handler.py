"""The HTTP API shell: events of payload format 2.0 to the routes and back.

Who may call is decided before: the HTTP API lets only signed requests through (infra.http_api). An instance may be
frozen after its answer, so exposures are written before it.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from lambdas.predict import problems
from lambdas.predict.problems import Reply, problem
from lambdas.predict.routes import Ask, Routes
from lambdas.predict.settings import read_settings
from lambdas.predict.wiring import build
from serving.errors import TelemetryError

WRITE_S = 1.5
WRITES = 2
"""An answer waits for its exposure: a table that does not answer must not cost it the function's 10 s."""

_log = logging.getLogger(__name__)


@cache
def _routes() -> Routes:
    return build(read_settings(os.environ), write_s=WRITE_S, writes=WRITES)


def handler(event: Mapping[str, Any], _context: object) -> dict[str, object]:
    """Answer one event."""
    return answer(_routes(), event)


def answer(routes: Routes, event: Mapping[str, Any]) -> dict[str, object]:
    """Answer one event over given routes."""
    http = event["requestContext"]["http"]
    try:
        body = _body(event)
    except ValueError:  # no base 64, or half of a surrogate pair
        return _event(
            problem(problems.INVALID, "body: got text that is no base 64 or no UTF-8; send the body as it is")
        )
    ask = Ask(method=http["method"], path=event["rawPath"], body=body, arrived_s=routes.service.monotonic())
    reply = routes.handle(ask)
    try:
        routes.service.recorder.flush()
    except TelemetryError as error:
        _log.warning("exposures wait for the next event: %s", error)
    return _event(reply)


def _body(event: Mapping[str, Any]) -> bytes:
    text: str = event.get("body") or ""
    return base64.b64decode(text, validate=True) if event.get("isBase64Encoded") else text.encode()


def _event(reply: Reply) -> dict[str, object]:
    return {
        "statusCode": reply.status,
        "headers": {"Content-Type": reply.content_type, **reply.headers},
        "body": reply.body.decode(),
        "isBase64Encoded": False,
    }
