"""Paths to answers: SageMaker's container contract and the Open Inference Protocol, over the models of a repository."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from urllib.parse import unquote

import orjson

from serving.runtime import description
from serving.runtime.exchange import Exchange, Head
from serving.runtime.http import Connection
from serving.runtime.inference import Handler, Inferences, not_ready
from serving.runtime.journal import Journal
from serving.runtime.metrics import Series, exposition
from serving.runtime.repository import Hosted, Repository
from serving.runtime.settings import SLOW_MS, Limits

_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
Route = tuple[bytes, Callable[[Head], Handler]]
"""A method, and what makes the handler of the requests behind one head."""


class ModelApp:
    """The models of a repository behind their routes; a model answers 503 until it is ready."""

    def __init__(self, repository: Repository, *, limits: Limits, journal: Journal | None = None) -> None:
        self.repository = repository
        self.limits = limits
        self.journal = journal if journal is not None else Journal(slow_ms=SLOW_MS)
        self.draining = False
        self.connections: set[Connection] = set()
        self.heads: dict[bytes, Head] = {}
        self.inferences = Inferences(self.journal, max_bytes=limits.max_body_bytes)
        self.more_routes: Callable[[Head], Handler | None] = _no_route
        """Routes of others, asked when none of these matches."""
        self.exposition: Callable[[], str] = self.metrics_text
        """What `/metrics` answers; of several processes each answers for all."""
        self._routes: dict[str, Route] = {
            "/ping": (b"GET", lambda _: self._health),
            "/invocations": (b"POST", self._invocations),
            "/metrics": (b"GET", lambda _: self._metrics_text),
            "/v2": (b"GET", lambda _: self._server),
            "/v2/health/live": (b"GET", lambda _: _live),
            "/v2/health/ready": (b"GET", lambda _: self._health),
            "/v2/models/stats": (b"GET", lambda _: self._statistics),
        }
        repository.changed = self._changed

    @property
    def ready(self) -> bool:
        """Whether a request sent now would be answered."""
        return self.repository.ready and not self.draining

    @property
    def idle(self) -> bool:
        """Whether every request was answered and every connection is closed."""
        return not self.connections and self.repository.idle

    def _changed(self) -> None:
        self.heads.clear()
        self.inferences.forget()

    def route(self, head: Head) -> Handler:
        """Give what answers the requests with a head."""
        path = _path(head)
        found = self._routes.get(path) or self._model_route(path)
        if found is None:
            return self.more_routes(head) or self._nothing(path)
        method, made = found
        if head.method == method or (head.method, method) == (b"HEAD", b"GET"):
            return made(head)
        return partial(_other_method, allowed=method)

    def _model_route(self, path: str) -> Route | None:
        """Find what a path below /v2/models/ asks of which model."""
        match [unquote(part) for part in path.split("/")]:
            case ["", "v2", "models", name, "versions", version, *verb]:
                hosted = self.repository.get(name, version) if version else None
            case ["", "v2", "models", name, *verb]:
                hosted = self.repository.get(name)
            case _:
                return None
        return None if hosted is None else self._verb(hosted, verb)

    def _verb(self, hosted: Hosted, verb: list[str]) -> Route | None:
        match verb:
            case []:
                return b"GET", lambda _: _telling(description.metadata, hosted)
            case ["config"]:
                return b"GET", lambda _: _telling(description.configuration, hosted)
            case ["stats"]:
                return b"GET", lambda _: _telling(_one_statistics, hosted)
            case ["ready"]:
                return b"GET", lambda _: partial(self._model_ready, hosted=hosted)
            case ["infer"]:
                return b"POST", partial(self.inference, hosted=hosted, sagemaker=False)
        return None

    def _nothing(self, path: str) -> Handler:
        parts = path.split("/")
        if parts[:2] == ["", "v2"] and {*parts[2:3], *parts[4:5]} & {*description.ABSENT}:
            return _absent
        return self._unknown

    def _unknown(self, exchange: Exchange) -> None:
        got = exchange.head.path[:200].decode(errors="replace")
        names = ", ".join(hosted.name for hosted in self.repository) or "none"
        exchange.fail(
            404,
            f"path: got {got!r}; allowed {', '.join(self._routes)}, "
            f"/v2/models/<name>[/versions/<version>][/ready, /infer, /config or /stats]; models here: {names}",
        )

    def _health(self, exchange: Exchange) -> None:
        if self.ready:
            exchange.answer(200, b"")
        else:
            not_ready(exchange)

    def _model_ready(self, exchange: Exchange, *, hosted: Hosted) -> None:
        if hosted.ready and not self.draining:
            exchange.answer(200, b"")
        else:
            not_ready(exchange)

    def _server(self, exchange: Exchange) -> None:
        exchange.answer(
            200,
            orjson.dumps(
                {
                    "name": "streamhub",
                    "version": version("streamhub-inference"),
                    "extensions": description.EXTENSIONS,
                }
            ),
        )

    def _statistics(self, exchange: Exchange) -> None:
        exchange.answer(200, orjson.dumps({"model_stats": [description.statistics(one) for one in self.repository]}))

    def _metrics_text(self, exchange: Exchange) -> None:
        exchange.answer(200, self.exposition().encode(), _TEXT)

    def metrics_text(self) -> str:
        """Give what this process counted, as Prometheus text."""
        series = [self._series(hosted) for hosted in self.repository]
        return exposition(series, gauges={"connections": float(len(self.connections))})

    def _series(self, hosted: Hosted) -> Series:
        batcher = hosted.batcher
        gauges = {
            "ready": float(hosted.ready and not self.draining),
            "running_batches": float(batcher.running) if batcher is not None else 0.0,
            "waiting_requests": float(batcher.waiting) if batcher is not None else 0.0,
            "slowdown_ratio": batcher.times.slowdown if batcher is not None else 1.0,
        }
        return Series(hosted.name, hosted.served.version, hosted.metrics, gauges)

    def _invocations(self, head: Head) -> Handler:
        hosted = self.repository.default
        return self._unknown if hosted is None else self.inference(head, hosted=hosted, sagemaker=True)

    def inference(self, head: Head, *, hosted: Hosted, sagemaker: bool) -> Handler:
        """Give what answers every inference of a model with this head."""
        several = self.repository.default is None
        return self.inferences.handler(head, hosted=hosted, sagemaker=sagemaker, several_models=several)


def _path(head: Head) -> str:
    """Give the path of a target in origin or absolute form (RFC 9112 §3.2), without its query."""
    target = head.path.decode("latin-1")
    if not target.startswith("/"):
        scheme, separator, rest = target.partition("://")
        if separator and scheme.lower() in {"http", "https"}:
            target = "/" + rest.partition("/")[2]
    return target.partition("?")[0]


def _telling(document: Callable[[Hosted], dict[str, object]], hosted: Hosted) -> Handler:
    return lambda exchange: exchange.answer(200, orjson.dumps(document(hosted)))


def _one_statistics(hosted: Hosted) -> dict[str, object]:
    return {"model_stats": [description.statistics(hosted)]}


def _live(exchange: Exchange) -> None:
    exchange.answer(200, b"")


def _absent(exchange: Exchange) -> None:
    got = exchange.head.path[:200].decode(errors="replace")
    exchange.fail(
        501,
        f"path: got {got!r}, an extension of Triton's; allowed {', '.join(description.EXTENSIONS)}; "
        f"this server has no shared memory, tracing or settings of its log",
    )


def _no_route(head: Head) -> Handler | None:
    del head
    return None


def _other_method(exchange: Exchange, *, allowed: bytes) -> None:
    text = allowed.decode()
    got = exchange.head.method.decode()
    exchange.fail(405, f"method: got {got}; allowed {text}; use {text}", b"allow: %s\r\n" % allowed)
