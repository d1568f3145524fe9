"""Paths to answers: SageMaker's container contract and the Open Inference Protocol, over one model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isfinite
from time import monotonic

import orjson

from serving.errors import (
    DeadlineExceededError,
    InferenceError,
    InvalidRequestError,
    ModelFailedError,
    OverloadedError,
)
from serving.protocol import codec
from serving.protocol.served import ServedModel
from serving.runtime.batcher import Answer, Batcher, Job
from serving.runtime.exchange import Exchange, Head
from serving.runtime.http import Connection
from serving.runtime.metrics import Metrics
from serving.runtime.plans import AnswerWriter, Decoded, RequestReader
from serving.runtime.settings import Limits

TRITON_VERSION = "1"
"""The version folder every archive has; clients of Triton ask for it."""

_STUCK_S = 60.0
"""A run longer than SageMaker's limit of an invocation will not end."""

_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
_DIGITS = 10
_OCTETS = b"application/octet-stream"
_BINARY = codec.BINARY_PREFIX.encode()
_STATUS: dict[type[InferenceError], tuple[int, str]] = {
    InvalidRequestError: (400, "invalid"),
    OverloadedError: (503, "rejected"),
    DeadlineExceededError: (504, "expired"),
    ModelFailedError: (500, "failed"),
}
Handler = Callable[[Exchange], None]


class _Inference(Job):
    __slots__ = ("_app", "_asked", "_exchange", "_sagemaker")

    def __init__(self, app: ModelApp, exchange: Exchange, decoded: Decoded, within_s: float, sagemaker: bool) -> None:  # noqa: FBT001 - once a request, and names cost
        arrived_s = exchange.arrived_s
        Job.__init__(self, decoded.arrays, decoded.signature, decoded.rows, arrived_s, arrived_s + within_s)
        self._app = app
        self._asked = decoded.asked
        self._exchange = exchange
        self._sagemaker = sagemaker

    def finish(self, answer: Answer) -> None:
        app, exchange = self._app, self._exchange
        if isinstance(answer, InferenceError):
            app.fail(exchange, answer)
            return
        try:
            body, header_bytes = app.writer.write(answer, self._asked)
        except InferenceError as error:
            app.fail(exchange, error)
            return
        metrics = app.metrics
        metrics.outcomes["ok"] += 1
        metrics.request_us.add(int((monotonic() - self.arrived_s) * 1e6))
        if header_bytes is None:
            exchange.answer(200, body)
        elif self._sagemaker:
            exchange.answer(200, body, b"%s%d" % (_BINARY, header_bytes))
        else:
            exchange.answer(200, body, _OCTETS, b"inference-header-content-length: %d\r\n" % header_bytes)

    def cancel(self) -> None:
        self._app.cancel(self)


class ModelApp:
    """One model behind its routes; answers 503 until `serve` gives it a batcher."""

    def __init__(self, served: ServedModel, *, limits: Limits, max_rows: int) -> None:
        self.served = served
        self.limits = limits
        self.draining = False
        self.connections: set[Connection] = set()
        self.heads: dict[bytes, Head] = {}
        self.metrics = Metrics()
        self._reader = RequestReader(served, max_rows=max_rows)
        self.writer = AnswerWriter(served)
        self._batcher: Batcher | None = None
        self._deadline_s = served.deadline_ms / 1e3
        self._routes = self._paths()

    def serve(self, batcher: Batcher) -> None:
        """Become ready."""
        self._batcher = batcher

    @property
    def ready(self) -> bool:
        """Whether a request sent now would be answered."""
        batcher = self._batcher
        return batcher is not None and not self.draining and batcher.running_s(monotonic()) < _STUCK_S

    @property
    def idle(self) -> bool:
        """Whether every request was answered and every connection is closed."""
        return not self.connections and (self._batcher is None or self._batcher.idle)

    def _paths(self) -> dict[bytes, tuple[bytes, Callable[[Head], Handler]]]:
        paths: dict[str, tuple[bytes, Callable[[Head], Handler]]] = {
            "/ping": (b"GET", lambda _: self._health),
            "/invocations": (b"POST", partial(self._inference, sagemaker=True)),
            "/metrics": (b"GET", lambda _: self._metrics_text),
            "/v2": (b"GET", lambda _: self._server),
            "/v2/health/live": (b"GET", lambda _: self._live),
            "/v2/health/ready": (b"GET", lambda _: self._health),
        }
        for versions in ("", f"/versions/{self.served.version}", f"/versions/{TRITON_VERSION}"):
            base = f"/v2/models/{self.served.name}{versions}"
            paths[base] = (b"GET", lambda _: self._model)
            paths[f"{base}/ready"] = (b"GET", lambda _: self._health)
            paths[f"{base}/infer"] = (b"POST", partial(self._inference, sagemaker=False))
        return {path.encode(): route for path, route in paths.items()}

    def handle(self, exchange: Exchange) -> None:
        """Answer one request."""
        route = exchange.head.route
        if route is None:
            route = exchange.head.route = self._route(exchange.head)
        route(exchange)

    def _route(self, head: Head) -> Handler:
        found = self._routes.get(head.path.partition(b"?")[0])
        if found is None:
            return self._unknown
        method, made = found
        if head.method == method or (head.method, method) == (b"HEAD", b"GET"):
            return made(head)
        return partial(_other_method, allowed=method)

    def _unknown(self, exchange: Exchange) -> None:
        got = exchange.head.path[:200].decode(errors="replace")
        allowed = ", ".join(path.decode() for path in self._routes)
        exchange.fail(404, f"path: got {got!r}; allowed {allowed}; this server has one model, {self.served.name!r}")

    def _live(self, exchange: Exchange) -> None:
        exchange.answer(200, b"")

    def _health(self, exchange: Exchange) -> None:
        if self.ready:
            exchange.answer(200, b"")
        else:
            exchange.fail(503, "server: not ready; it loads its model, or it is shutting down", b"retry-after: 1\r\n")

    def _server(self, exchange: Exchange) -> None:
        document = {"name": "streamhub", "version": self.served.version, "extensions": ["binary_tensor_data"]}
        exchange.answer(200, orjson.dumps(document))

    def _model(self, exchange: Exchange) -> None:
        served = self.served
        tensors = {
            key: [{"name": t.name, "datatype": t.dtype.value, "shape": [-1, *t.shape]} for t in group]
            for key, group in (("inputs", served.inputs), ("outputs", served.outputs))
        }
        document = {
            "name": served.name,
            "versions": [served.version],
            "platform": "onnxruntime_onnx",
            **tensors,
        }
        exchange.answer(200, orjson.dumps(document))

    def _metrics_text(self, exchange: Exchange) -> None:
        batcher = self._batcher
        gauges = {
            "ready": float(self.ready),
            "connections": float(len(self.connections)),
            "running_batches": float(batcher.running) if batcher is not None else 0.0,
            "waiting_requests": float(batcher.waiting) if batcher is not None else 0.0,
            "slowdown_ratio": batcher.times.slowdown if batcher is not None else 1.0,
        }
        text = self.metrics.text(model=self.served.name, version=self.served.version, gauges=gauges)
        exchange.answer(200, text.encode(), _TEXT)

    def _inference(self, head: Head, *, sagemaker: bool) -> Handler:
        """Give what answers every request with this head."""
        headers = head.headers
        if headers.get(b"content-encoding", b"identity") != b"identity":
            return self._compressed
        size = _sagemaker_size(headers) if sagemaker else _triton_size(headers)
        fixed = int(size) if size is not None and size.isascii() and size.isdecimal() and len(size) < _DIGITS else -1
        within_s = self._within_s(headers)
        read = self._reader.read

        def infer(exchange: Exchange) -> None:
            batcher, body = self._batcher, exchange.body
            if batcher is None:
                self._health(exchange)
                return
            try:
                if isinstance(within_s, str):
                    raise InvalidRequestError(within_s)
                if size is None:
                    decoded = read(body, None)
                elif 0 <= fixed <= len(body):
                    decoded = read(body, fixed)
                else:
                    decoded = read(body, codec.check_header_size(size, body_size=len(body)))
                job = _Inference(self, exchange, decoded, within_s, sagemaker)
                batcher.submit(job)
            except InferenceError as error:
                self.fail(exchange, error)
            else:
                exchange.job = job

        return infer

    def _compressed(self, exchange: Exchange) -> None:
        self.metrics.outcomes["invalid"] += 1
        exchange.fail(415, "content-encoding: got a compressed body; allowed identity; send it as it is")

    def _within_s(self, headers: dict[bytes, bytes]) -> float | str:
        """Give the time a request has: the model's own limit, or less if the client says so; a text: what is wrong."""
        asked = headers.get(b"x-streamhub-timeout-ms")
        if asked is None:
            return self._deadline_s
        try:
            asked_ms = float(asked)
        except ValueError:
            asked_ms = 0.0
        if isfinite(asked_ms) and asked_ms > 0:
            return min(self._deadline_s, asked_ms / 1e3)
        return (
            f"X-StreamHub-Timeout-Ms: got {asked[:40].decode(errors='replace')!r}; "
            f"allowed a number above 0; leave it out for the model's own {self.served.deadline_ms:g}"
        )

    def cancel(self, job: Job) -> None:
        """Forget a job whose client is gone."""
        if self._batcher is not None:
            self._batcher.cancel(job)

    def fail(self, exchange: Exchange, error: InferenceError) -> None:
        """Send why there is no answer."""
        status, outcome = _STATUS[type(error)]
        self.metrics.outcomes[outcome] += 1
        extra = b"retry-after: %d\r\n" % error.retry_after_s if isinstance(error, OverloadedError) else b""
        exchange.fail(status, str(error), extra)


def _other_method(exchange: Exchange, *, allowed: bytes) -> None:
    text = allowed.decode()
    got = exchange.head.method.decode()
    exchange.fail(405, f"method: got {got}; allowed {text}; use {text}", b"allow: %s\r\n" % allowed)


def _sagemaker_size(headers: dict[bytes, bytes]) -> str | None:
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    return content_type[len(codec.BINARY_PREFIX) :] if content_type.startswith(codec.BINARY_PREFIX) else None


def _triton_size(headers: dict[bytes, bytes]) -> str | None:
    length = headers.get(b"inference-header-content-length")
    return None if length is None else length.decode("latin-1")
