"""Method and path to the service, and its errors to answers: what both shells share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from lambdas.predict import problems
from lambdas.predict.openapi import openapi_document
from lambdas.predict.problems import Reply, problem, reply_of
from lambdas.predict.service import Document, Predictions
from serving.errors import NotAvailableError, StreamHubError
from serving.prediction import requests

MAX_BODY_BYTES = 1024 * 1024
MAX_IMAGE_BODY_BYTES = 6 * 1024 * 1024
SUPPORT = "/v1/support/answer"
_IMAGE_ROUTES = frozenset({"/v1/moderate", "/v1/thumbnail-score"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One HTTP request; `arrived_s` is when it came, by the service's monotonic clock."""

    method: str
    path: str
    body: bytes
    arrived_s: float


Handler = Callable[[Ask], Reply]


def max_body_bytes(path: str) -> int:
    """Give how large a body of this route may be."""
    return MAX_IMAGE_BODY_BYTES if path in _IMAGE_ROUTES else MAX_BODY_BYTES


class Routes:
    """The routes of the API over one service."""

    def __init__(self, service: Predictions, *, stage: str) -> None:
        self.service = service
        self._stage = stage
        openapi = Reply(status=200, body=orjson.dumps(openapi_document()))
        self._routes: Mapping[str, tuple[str, Handler]] = {
            "/v1/rank": ("POST", lambda ask: _json(service.rank(ask.body, arrived_s=ask.arrived_s))),
            "/v1/moderate": ("POST", lambda ask: _json(service.moderate(ask.body, arrived_s=ask.arrived_s))),
            "/v1/thumbnail-score": (
                "POST",
                lambda ask: _json(service.thumbnail_score(ask.body, arrived_s=ask.arrived_s)),
            ),
            "/v1/thumbnail-score/batch": ("POST", _no_batch),
            SUPPORT: ("POST", _no_generator),
            "/v1/outcomes": ("POST", lambda ask: _json(service.outcome(ask.body), status=202)),
            "/healthz": ("GET", lambda _: _json(self._health())),
            "/openapi.json": ("GET", lambda _: openapi),
        }

    def handle(self, ask: Ask) -> Reply:
        """Answer one request; nothing is raised."""
        refused = self.refusal(ask.method, ask.path, size_bytes=len(ask.body))
        if refused is not None:
            return refused
        try:
            return self._routes[ask.path][1](ask)
        except StreamHubError as error:
            _log.info("%s: %s", ask.path, error)
            return reply_of(error)
        except Exception:  # noqa: BLE001 - the edge: the client gets a problem document, the log the rest
            _log.exception("%s %s failed", ask.method, ask.path)
            return problem(problems.INTERNAL, "the service could not do this; its log says why")

    def refusal(self, method: str, path: str, *, size_bytes: int) -> Reply | None:
        """Refuse an unknown route, a wrong method or a body that is too large."""
        if path not in self._routes:
            return problem(problems.NO_ROUTE, f"{path[:200]}: allowed {', '.join(self._routes)}; see /openapi.json")
        allowed = self._routes[path][0]
        if method != allowed:
            detail = f"{path}: got {method[:20]}; allowed {allowed}; send that"
            return problem(problems.NO_METHOD, detail, headers={"Allow": allowed})
        if size_bytes > max_body_bytes(path):
            detail = f"body: allowed {max_body_bytes(path)} bytes for {path}; send a smaller one"
            return problem(problems.TOO_LARGE, detail)
        return None

    def _health(self) -> Document:
        models = sorted(target.spec.name for target in self.service.targets.values())
        return {"status": "ok", "stage": self._stage, "models": models}


def _json(document: Document, *, status: int = 200) -> Reply:
    return Reply(status=status, body=orjson.dumps(document))


def _no_batch(_: Ask) -> Reply:
    raise NotAvailableError(
        "/v1/thumbnail-score/batch: no batch endpoint is deployed; allowed single requests; use /v1/thumbnail-score"
    )


def _no_generator(ask: Ask) -> Reply:
    if requests.support_request(ask.body).stream:
        return problem(
            problems.NO_STREAM,
            "stream: got true; allowed false, as a function behind an HTTP API answers as a whole; use the ASGI API",
        )
    raise NotAvailableError(
        "/v1/support/answer: no generator is wired here; allowed an API with STREAMHUB_SUPPORT_URL; use that one"
    )
