"""One inference: from the body of a request through the batcher to its answer, counted on the way."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from serving.errors import (
    DeadlineExceededError,
    HostingError,
    InferenceError,
    InvalidRequestError,
    ModelFailedError,
    NoRoomError,
    OverloadedError,
)
from serving.runtime.asked import Asked, Decoded
from serving.runtime.bodies import BodyTooLargeError, MediaTypeError, reading
from serving.runtime.exchange import Exchange, Head
from serving.runtime.headers import echoed, refusal, within_s
from serving.runtime.jobs import Answer, Job
from serving.runtime.journal import Journal
from serving.runtime.replies import NotAcceptableError, Pump, Reply
from serving.runtime.repository import Hosted

RETRY = b"retry-after: 1\r\n"
_LARGE_BYTES = 4096
"""A body that costs more to decode than to ask whether there is time for it: 80 kB of JSON take half a millisecond."""
_STATUS: dict[type[InferenceError], tuple[int, str]] = {
    InvalidRequestError: (400, "invalid"),
    NotAcceptableError: (406, "invalid"),
    BodyTooLargeError: (413, "invalid"),
    MediaTypeError: (415, "invalid"),
    OverloadedError: (503, "rejected"),
    DeadlineExceededError: (504, "expired"),
    ModelFailedError: (500, "failed"),
}
Handler = Callable[[Exchange], None]
Woken = Callable[[HostingError | None], None]


class _Inference(Job):
    __slots__ = ("_asked", "_exchange", "_hosted", "_reply")

    def __init__(self, hosted: Hosted, exchange: Exchange, decoded: Decoded, within_s: float, reply: Reply) -> None:
        arrived_s = exchange.arrived_s
        Job.__init__(self, decoded.arrays, decoded.signature, decoded.rows, arrived_s, arrived_s + within_s)
        self._hosted = hosted
        self._asked: Asked = decoded.asked
        self._exchange = exchange
        self._reply = reply

    def finish(self, answer: Answer) -> None:
        hosted, exchange = self._hosted, self._exchange
        if isinstance(answer, InferenceError):
            fail(exchange, answer, hosted)
            return
        computed_s = monotonic()
        try:
            body, content_type, lines = self._reply.write(answer, self._asked)
        except InferenceError as error:
            fail(exchange, error, hosted)
            return
        now_s = monotonic()
        seconds = now_s - self.arrived_s
        hosted.metrics.answered(seconds=seconds, encoded_s=now_s - computed_s)
        if seconds >= self._reply.journal.slow_s:
            self._tell(seconds)
        if self._asked.stream:
            Pump(exchange, body, content_type, lines)
        else:
            exchange.answer(200, body, content_type, lines)

    def _tell(self, seconds: float) -> None:
        head, journal = self._exchange.head, self._reply.journal
        request_id = head.request_id or journal.new_id()
        journal.answered(method=head.method, path=head.path, request_id=request_id, seconds=seconds)

    def cancel(self) -> None:
        if self._hosted.batcher is not None:
            self._hosted.batcher.cancel(self)


class Inferences:
    """Makes what answers the inferences behind one head; `wake` may bring a model back that left for another one."""

    def __init__(self, journal: Journal, *, max_bytes: int) -> None:
        self._journal = journal
        self._max_bytes = max_bytes
        self.wake: Callable[[Hosted, Woken], bool] = _no_wake

    def handler(self, head: Head, *, hosted: Hosted, sagemaker: bool, several_models: bool) -> Handler:
        """Give what answers every request with this head."""
        headers = head.headers
        accept = headers.get(b"accept") if sagemaker else None
        wrong = refusal(headers, several_models=several_models) if sagemaker else ""
        lines = echoed(headers) if sagemaker and not wrong else b""
        reply = Reply(hosted, self._journal, sagemaker=sagemaker, accept=accept, lines=lines)
        read = reading(headers, hosted, sagemaker=sagemaker, max_bytes=self._max_bytes)
        limit_s = within_s(headers, hosted.deadline_s)
        if isinstance(limit_s, str):
            wrong, limit_s = wrong or limit_s, 0.0
        metrics, choosing = hosted.metrics, reply.choosing

        def infer(exchange: Exchange) -> None:
            batcher = hosted.batcher
            if batcher is None:
                self._wake(exchange, infer, hosted)
                return
            hosted.used_s = arrived_s = exchange.arrived_s
            try:
                if wrong:
                    raise InvalidRequestError(wrong)
                if len(exchange.body) >= _LARGE_BYTES:
                    batcher.check(arrived_s, arrived_s + limit_s)
                decoded = read(exchange.body)
                if choosing:
                    decoded = decoded._replace(asked=reply.form(decoded.asked))
                asked_s = decoded.asked.within_s
                job = _Inference(hosted, exchange, decoded, min(asked_s, limit_s), reply)
                metrics.decoded_s += monotonic() - arrived_s
                batcher.submit(job)
            except InferenceError as error:
                fail(exchange, error, hosted)
            else:
                exchange.job = job

        return infer

    def _wake(self, exchange: Exchange, infer: Handler, hosted: Hosted) -> None:
        def woken(error: HostingError | None) -> None:
            if error is None and hosted.batcher is not None:
                exchange.arrived_s = monotonic()  # its deadline is for the inference, not for the loading
                infer(exchange)
                return
            hosted.metrics.unanswered("rejected", seconds=monotonic() - exchange.arrived_s)
            status = 507 if isinstance(error, NoRoomError) else 503
            exchange.fail(status, str(error or "server: got a model that left again; try again"), RETRY)

        if not self.wake(hosted, woken):
            not_ready(exchange)


def fail(exchange: Exchange, error: InferenceError, hosted: Hosted) -> None:
    """Send why there is no answer."""
    status, outcome = _STATUS[type(error)]
    hosted.metrics.unanswered(outcome, seconds=monotonic() - exchange.arrived_s)
    extra = b"retry-after: %d\r\n" % error.retry_after_s if isinstance(error, OverloadedError) else b""
    exchange.fail(status, str(error), extra)


def not_ready(exchange: Exchange) -> None:
    """Send that a model, or the server, cannot answer now."""
    exchange.fail(503, "server: not ready; it loads its model, or it is shutting down", RETRY)


def _no_wake(hosted: Hosted, woken: Woken) -> bool:
    del hosted, woken
    return False
