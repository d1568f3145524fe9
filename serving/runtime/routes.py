"""Paths to answers: SageMaker's container contract and the Open Inference Protocol, over the models of a repository."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from math import isfinite
from time import monotonic

import orjson

from serving.errors import (
    DeadlineExceededError,
    HostingError,
    InferenceError,
    InvalidRequestError,
    ModelFailedError,
    NoRoomError,
    OverloadedError,
)
from serving.protocol import codec
from serving.runtime.exchange import Exchange, Head
from serving.runtime.http import Connection
from serving.runtime.jobs import Answer, Job
from serving.runtime.plans import Decoded
from serving.runtime.repository import Hosted, Repository
from serving.runtime.settings import Limits

_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
_DIGITS = 10
_RETRY = b"retry-after: 1\r\n"
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
    __slots__ = ("_asked", "_exchange", "_hosted", "_sagemaker")

    def __init__(self, hosted: Hosted, exchange: Exchange, decoded: Decoded, within_s: float, sagemaker: bool) -> None:  # noqa: FBT001 - once a request, and names cost
        arrived_s = exchange.arrived_s
        Job.__init__(self, decoded.arrays, decoded.signature, decoded.rows, arrived_s, arrived_s + within_s)
        self._hosted = hosted
        self._asked = decoded.asked
        self._exchange = exchange
        self._sagemaker = sagemaker

    def finish(self, answer: Answer) -> None:
        hosted, exchange = self._hosted, self._exchange
        if isinstance(answer, InferenceError):
            fail(exchange, answer, hosted)
            return
        try:
            body, header_bytes = hosted.writer.write(answer, self._asked)
        except InferenceError as error:
            fail(exchange, error, hosted)
            return
        metrics = hosted.metrics
        metrics.outcomes["ok"] += 1
        metrics.request_us.add(int((monotonic() - self.arrived_s) * 1e6))
        if header_bytes is None:
            exchange.answer(200, body)
        elif self._sagemaker:
            exchange.answer(200, body, b"%s%d" % (_BINARY, header_bytes))
        else:
            exchange.answer(200, body, _OCTETS, b"inference-header-content-length: %d\r\n" % header_bytes)

    def cancel(self) -> None:
        if self._hosted.batcher is not None:
            self._hosted.batcher.cancel(self)


class ModelApp:
    """The models of a repository behind their routes; a model answers 503 until it is ready."""

    def __init__(self, repository: Repository, *, limits: Limits) -> None:
        self.repository = repository
        self.limits = limits
        self.draining = False
        self.connections: set[Connection] = set()
        self.heads: dict[bytes, Head] = {}
        self.more_routes: Callable[[Head], Handler | None] = _no_route
        """Routes of others, asked when none of these matches."""
        self.wake: Callable[[Hosted, Callable[[HostingError | None], None]], bool] = _no_wake
        """Loads a model again that had left for another one, and calls back; False: it did not leave."""
        self.exposition: Callable[[], str] = self.metrics_text
        """What `/metrics` answers; of several processes each answers for all."""
        self._routes = self._paths()
        repository.changed = self.heads.clear

    @property
    def ready(self) -> bool:
        """Whether a request sent now would be answered."""
        return self.repository.ready and not self.draining

    @property
    def idle(self) -> bool:
        """Whether every request was answered and every connection is closed."""
        return not self.connections and self.repository.idle

    def _paths(self) -> dict[bytes, tuple[bytes, Callable[[Head], Handler]]]:
        return {
            b"/ping": (b"GET", lambda _: self._health),
            b"/invocations": (b"POST", self._invocations),
            b"/metrics": (b"GET", lambda _: self._metrics_text),
            b"/v2": (b"GET", lambda _: self._server),
            b"/v2/health/live": (b"GET", lambda _: self._live),
            b"/v2/health/ready": (b"GET", lambda _: self._health),
        }

    def _model_path(self, path: bytes) -> tuple[bytes, Callable[[Head], Handler]] | None:
        """Find what a path below /v2/models/ asks of which model."""
        match path.decode("latin-1").split("/"):
            case ["", "v2", "models", name, "versions", version, *verb]:
                hosted = self.repository.get(name, version) if version else None
            case ["", "v2", "models", name, *verb]:
                hosted = self.repository.get(name)
            case _:
                return None
        if hosted is None:
            return None
        match verb:
            case []:
                return b"GET", lambda _: partial(_metadata, hosted=hosted)
            case ["ready"]:
                return b"GET", lambda _: partial(self._model_ready, hosted=hosted)
            case ["infer"]:
                return b"POST", partial(self.inference, hosted=hosted, sagemaker=False)
        return None

    def handle(self, exchange: Exchange) -> None:
        """Answer one request."""
        route = exchange.head.route
        if route is None:
            route = exchange.head.route = self._route(exchange.head)
        route(exchange)

    def _route(self, head: Head) -> Handler:
        path = head.path.partition(b"?")[0]
        found = self._routes.get(path) or self._model_path(path)
        if found is None:
            return self.more_routes(head) or self._unknown
        method, made = found
        if head.method == method or (head.method, method) == (b"HEAD", b"GET"):
            return made(head)
        return partial(_other_method, allowed=method)

    def _unknown(self, exchange: Exchange) -> None:
        got = exchange.head.path[:200].decode(errors="replace")
        paths = ", ".join(path.decode() for path in self._routes)
        names = ", ".join(hosted.name for hosted in self.repository) or "none"
        exchange.fail(
            404,
            f"path: got {got!r}; allowed {paths}, /v2/models/<name>[/versions/<version>][/ready or /infer]; "
            f"models here: {names}",
        )

    def _live(self, exchange: Exchange) -> None:
        exchange.answer(200, b"")

    def _health(self, exchange: Exchange) -> None:
        if self.ready:
            exchange.answer(200, b"")
        else:
            _not_ready(exchange)

    def _model_ready(self, exchange: Exchange, *, hosted: Hosted) -> None:
        if hosted.ready and not self.draining:
            exchange.answer(200, b"")
        else:
            _not_ready(exchange)

    def _server(self, exchange: Exchange) -> None:
        document = {
            "name": "streamhub",
            "version": version("streamhub-inference"),
            "extensions": ["binary_tensor_data"],
        }
        exchange.answer(200, orjson.dumps(document))

    def _metrics_text(self, exchange: Exchange) -> None:
        exchange.answer(200, self.exposition().encode(), _TEXT)

    def metrics_text(self) -> str:
        """Give what this process counted, as Prometheus text."""
        return "".join(map(self._metrics_of, self.repository))

    def _metrics_of(self, hosted: Hosted) -> str:
        batcher = hosted.batcher
        gauges = {
            "ready": float(hosted.ready and not self.draining),
            "connections": float(len(self.connections)),
            "running_batches": float(batcher.running) if batcher is not None else 0.0,
            "waiting_requests": float(batcher.waiting) if batcher is not None else 0.0,
            "slowdown_ratio": batcher.times.slowdown if batcher is not None else 1.0,
        }
        return hosted.metrics.text(model=hosted.name, version=hosted.served.version, gauges=gauges)

    def _invocations(self, head: Head) -> Handler:
        hosted = self.repository.default
        return self._unknown if hosted is None else self.inference(head, hosted=hosted, sagemaker=True)

    def inference(self, head: Head, *, hosted: Hosted, sagemaker: bool) -> Handler:
        """Give what answers every request with this head."""
        headers = head.headers
        if headers.get(b"content-encoding", b"identity") != b"identity":
            return partial(_compressed, hosted=hosted)
        size = _sagemaker_size(headers) if sagemaker else _triton_size(headers)
        fixed = int(size) if size is not None and size.isascii() and size.isdecimal() and len(size) < _DIGITS else -1
        within_s = _within_s(headers, hosted)
        read = hosted.reader.read

        def infer(exchange: Exchange) -> None:
            batcher, body = hosted.batcher, exchange.body
            if batcher is None:
                if not self.wake(hosted, partial(self._woken, exchange, infer, hosted)):
                    _not_ready(exchange)
                return
            hosted.used_s = exchange.arrived_s
            try:
                if isinstance(within_s, str):
                    raise InvalidRequestError(within_s)
                if size is None:
                    decoded = read(body, None)
                elif 0 <= fixed <= len(body):
                    decoded = read(body, fixed)
                else:
                    decoded = read(body, codec.check_header_size(size, body_size=len(body)))
                job = _Inference(hosted, exchange, decoded, within_s, sagemaker)
                batcher.submit(job)
            except InferenceError as error:
                fail(exchange, error, hosted)
            else:
                exchange.job = job

        return infer

    def _woken(self, exchange: Exchange, infer: Handler, hosted: Hosted, error: HostingError | None) -> None:
        if error is None and hosted.batcher is not None:
            exchange.arrived_s = monotonic()  # its deadline is for the inference, not for the loading
            infer(exchange)
        else:
            hosted.metrics.outcomes["rejected"] += 1
            status = 507 if isinstance(error, NoRoomError) else 503
            exchange.fail(status, str(error or "server: got a model that left again; try again"), _RETRY)


def fail(exchange: Exchange, error: InferenceError, hosted: Hosted) -> None:
    """Send why there is no answer."""
    status, outcome = _STATUS[type(error)]
    hosted.metrics.outcomes[outcome] += 1
    extra = b"retry-after: %d\r\n" % error.retry_after_s if isinstance(error, OverloadedError) else b""
    exchange.fail(status, str(error), extra)


def _not_ready(exchange: Exchange) -> None:
    exchange.fail(503, "server: not ready; it loads its model, or it is shutting down", _RETRY)


def _metadata(exchange: Exchange, *, hosted: Hosted) -> None:
    served = hosted.served
    tensors = {
        key: [{"name": t.name, "datatype": t.dtype.value, "shape": [-1, *t.shape]} for t in group]
        for key, group in (("inputs", served.inputs), ("outputs", served.outputs))
    }
    document = {"name": hosted.name, "versions": [served.version], "platform": "onnxruntime_onnx", **tensors}
    exchange.answer(200, orjson.dumps(document))


def _compressed(exchange: Exchange, *, hosted: Hosted) -> None:
    hosted.metrics.outcomes["invalid"] += 1
    exchange.fail(415, "content-encoding: got a compressed body; allowed identity; send it as it is")


def _within_s(headers: dict[bytes, bytes], hosted: Hosted) -> float | str:
    """Give the time a request has: the model's own limit, or less if the client says so; a text: what is wrong."""
    asked = headers.get(b"x-streamhub-timeout-ms")
    if asked is None:
        return hosted.deadline_s
    try:
        asked_ms = float(asked)
    except ValueError:
        asked_ms = 0.0
    if isfinite(asked_ms) and asked_ms > 0:
        return min(hosted.deadline_s, asked_ms / 1e3)
    return (
        f"X-StreamHub-Timeout-Ms: got {asked[:40].decode(errors='replace')!r}; "
        f"allowed a number above 0; leave it out for the model's own {hosted.served.deadline_ms:g}"
    )


def _no_route(head: Head) -> Handler | None:
    del head
    return None


def _no_wake(hosted: Hosted, then: Callable[[HostingError | None], None]) -> bool:
    del hosted, then
    return False


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
