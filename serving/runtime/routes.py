"""Paths to answers: SageMaker's container contract and the Open Inference Protocol, over one model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import isfinite

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
from serving.protocol.tensors import InferRequest, InferResponse, Tensor
from serving.runtime.batcher import Answer, Batcher, Job
from serving.runtime.checks import RequestCheck
from serving.runtime.http import JSON, Connection, Exchange
from serving.runtime.metrics import Metrics
from serving.runtime.settings import Limits

TRITON_VERSION = "1"
"""The version folder every archive has; clients of Triton ask for it."""

_STUCK_S = 60.0
"""A run longer than SageMaker's limit of an invocation will not end."""

_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
_OCTETS = b"application/octet-stream"
_STATUS: dict[type[InferenceError], tuple[int, str]] = {
    InvalidRequestError: (400, "invalid"),
    OverloadedError: (503, "rejected"),
    DeadlineExceededError: (504, "expired"),
    ModelFailedError: (500, "failed"),
}
Handler = Callable[[Exchange], None]


class _Inference(Job):
    __slots__ = ("_app", "_exchange", "_request", "_sagemaker")

    def __init__(self, app: ModelApp, exchange: Exchange, request: InferRequest, *, sagemaker: bool) -> None:
        arrays = app.check.arrays(request)
        arrived_s = exchange.arrived_s
        super().__init__(
            arrays,
            app.check.signature(arrays),
            arrived_s=arrived_s,
            deadline_s=arrived_s + app.deadline_s(exchange),
        )
        self._app = app
        self._exchange = exchange
        self._request = request
        self._sagemaker = sagemaker

    def finish(self, answer: Answer) -> None:
        self._app.finish(self._exchange, self._request, answer, sagemaker=self._sagemaker)

    def cancel(self) -> None:
        self._app.cancel(self)


class ModelApp:
    """One model behind its routes; answers 503 until `serve` gives it a batcher."""

    def __init__(self, served: ServedModel, *, limits: Limits, max_rows: int, loop: asyncio.AbstractEventLoop) -> None:
        self.served = served
        self.limits = limits
        self.draining = False
        self.connections: set[Connection] = set()
        self.metrics = Metrics()
        self.check = RequestCheck(served, max_rows=max_rows)
        self._loop = loop
        self._batcher: Batcher | None = None
        self._deadline_s = served.deadline_ms / 1e3
        self._outputs = [tensor.name for tensor in served.outputs]
        self._routes = self._paths()

    def serve(self, batcher: Batcher) -> None:
        """Become ready."""
        self._batcher = batcher

    @property
    def ready(self) -> bool:
        """Whether a request sent now would be answered."""
        batcher = self._batcher
        return batcher is not None and not self.draining and batcher.running_s(self._loop.time()) < _STUCK_S

    @property
    def idle(self) -> bool:
        """Whether every request was answered and every connection is closed."""
        return not self.connections and (self._batcher is None or self._batcher.idle)

    def _paths(self) -> dict[bytes, tuple[bytes, Handler]]:
        paths: dict[str, tuple[bytes, Handler]] = {
            "/ping": (b"GET", self._health),
            "/invocations": (b"POST", self._invoke),
            "/metrics": (b"GET", self._metrics_text),
            "/v2": (b"GET", self._server),
            "/v2/health/live": (b"GET", lambda exchange: exchange.answer(200, b"")),
            "/v2/health/ready": (b"GET", self._health),
        }
        for versions in ("", f"/versions/{self.served.version}", f"/versions/{TRITON_VERSION}"):
            base = f"/v2/models/{self.served.name}{versions}"
            paths[base] = (b"GET", self._model)
            paths[f"{base}/ready"] = (b"GET", self._health)
            paths[f"{base}/infer"] = (b"POST", self._infer)
        return {path.encode(): route for path, route in paths.items()}

    def handle(self, exchange: Exchange) -> None:
        """Answer one request."""
        path = exchange.path
        route = self._routes.get(path)
        if route is None:
            route = self._routes.get(path.partition(b"?")[0])
            if route is None:
                self._unknown(exchange)
                return
        method, handler = route
        if exchange.method != method and (exchange.method, method) != (b"HEAD", b"GET"):
            allowed = method.decode()
            text = f"method: got {exchange.method.decode()}; allowed {allowed}; use {allowed}"
            exchange.fail(405, text, b"allow: %s\r\n" % method)
            return
        handler(exchange)

    def _unknown(self, exchange: Exchange) -> None:
        got = exchange.path[:200].decode(errors="replace")
        allowed = ", ".join(path.decode() for path in self._routes)
        exchange.fail(404, f"path: got {got!r}; allowed {allowed}; this server has one model, {self.served.name!r}")

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
        versions = [served.version]
        document = {"name": served.name, "versions": versions, "platform": "onnxruntime_onnx", **tensors}
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

    def _invoke(self, exchange: Exchange) -> None:
        self._submit(exchange, sagemaker=True)

    def _infer(self, exchange: Exchange) -> None:
        self._submit(exchange, sagemaker=False)

    def _submit(self, exchange: Exchange, *, sagemaker: bool) -> None:
        batcher = self._batcher
        headers = exchange.headers
        if batcher is None:
            self._health(exchange)
            return
        if headers.get(b"content-encoding", b"identity") != b"identity":
            self.metrics.outcomes["invalid"] += 1
            exchange.fail(415, "content-encoding: got a compressed body; allowed identity; send it as it is")
            return
        try:
            job = _Inference(self, exchange, _decoded(exchange, sagemaker=sagemaker), sagemaker=sagemaker)
            batcher.submit(job)
        except InferenceError as error:
            self._fail(exchange, error)
        else:
            exchange.job = job

    def deadline_s(self, exchange: Exchange) -> float:
        """Give the time a request has: the model's own limit, or less if the client says so."""
        asked = exchange.headers.get(b"x-streamhub-timeout-ms")
        if asked is None:
            return self._deadline_s
        try:
            asked_ms = float(asked)
        except ValueError:
            asked_ms = 0.0
        if not (isfinite(asked_ms) and asked_ms > 0):
            raise InvalidRequestError(
                f"X-StreamHub-Timeout-Ms: got {asked[:40].decode(errors='replace')!r}; "
                f"allowed a number above 0; leave it out for the model's own {self.served.deadline_ms:g}"
            )
        return min(self._deadline_s, asked_ms / 1e3)

    def cancel(self, job: Job) -> None:
        """Forget a job whose client is gone."""
        if self._batcher is not None:
            self._batcher.cancel(job)

    def finish(self, exchange: Exchange, request: InferRequest, answer: Answer, *, sagemaker: bool) -> None:
        """Send the outputs of a job, or why there are none."""
        if isinstance(answer, InferenceError):
            self._fail(exchange, answer)
            return
        asked = request.outputs
        outputs = tuple(
            Tensor(name, array) for name, array in zip(self._outputs, answer, strict=True) if not asked or name in asked
        )
        response = InferResponse(
            model_name=self.served.name, model_version=self.served.version, id=request.id, outputs=outputs
        )
        try:
            body, header_bytes = codec.encode_response_parts(response, binary=request.binary_output)
        except InferenceError as error:
            self._fail(exchange, error)
            return
        self.metrics.outcomes["ok"] += 1
        self.metrics.request_us.add(int((self._loop.time() - exchange.arrived_s) * 1e6))
        if header_bytes is None:
            exchange.answer(200, body, JSON)
        elif sagemaker:
            exchange.answer(200, body, f"{codec.BINARY_PREFIX}{header_bytes}".encode())
        else:
            exchange.answer(200, body, _OCTETS, b"inference-header-content-length: %d\r\n" % header_bytes)

    def _fail(self, exchange: Exchange, error: InferenceError) -> None:
        status, outcome = _STATUS[type(error)]
        self.metrics.outcomes[outcome] += 1
        extra = b"retry-after: %d\r\n" % error.retry_after_s if isinstance(error, OverloadedError) else b""
        exchange.fail(status, str(error), extra)


def _decoded(exchange: Exchange, *, sagemaker: bool) -> InferRequest:
    body, headers = exchange.body, exchange.headers
    if sagemaker:
        content_type = headers.get(b"content-type", JSON).decode("latin-1")
        return codec.decode_request_parts(body, header_bytes=codec.header_size(content_type, body_size=len(body)))
    length = headers.get(b"inference-header-content-length")
    if length is None:
        return codec.decode_request_parts(body, header_bytes=None)
    size = codec.check_header_size(length.decode("latin-1"), body_size=len(body))
    return codec.decode_request_parts(body, header_bytes=size)
