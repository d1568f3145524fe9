"""One inference: from the body of a request through the batcher to its answer, counted on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic
from typing import cast

from serving.batching.stacking import Parts
from serving.errors import (
    DeadlineExceededError,
    HostingError,
    InferenceError,
    InvalidRequestError,
    ModelFailedError,
    NoRoomError,
    OverloadedError,
)
from serving.protocol.tensors import Array
from serving.runtime.asked import Asked, Decoded
from serving.runtime.bodies import BodyTooLargeError, MediaTypeError, reading
from serving.runtime.exchange import Exchange, Head
from serving.runtime.headers import echoed, refusal, within_s
from serving.runtime.jobs import Answer, Division, Job, Signature
from serving.runtime.jobs import finish as one_by_one
from serving.runtime.journal import Journal
from serving.runtime.replies import NotAcceptableError, Pump, Reply
from serving.runtime.repository import Hosted

RETRY = b"retry-after: 1\r\n"
_LARGE_BYTES = 4096
"""A body that costs more to decode than to ask whether there is time for it: 80 kB of JSON take half a millisecond."""
_MOST_REPLIES = 256
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


class Inference(Exchange):
    """A request for one inference: a job of the batcher, once its body was read."""

    __slots__ = (
        "arrays",
        "asked",
        "by",
        "cancelled",
        "deadline_s",
        "division",
        "rows",
        "signature",
        "waits",
    )

    arrays: list[Array]
    signature: Signature
    rows: int
    deadline_s: float
    cancelled: bool
    division: Division | None
    asked: Asked
    by: _Inferring
    waits: bool
    """Whether the batcher has it."""

    def finish(self, answer: Answer) -> None:
        """Take the outputs, or why there are none."""
        self.waits = False
        by = self.by
        if isinstance(answer, InferenceError):
            fail(self, answer, by.hosted)
            return
        computed_s = monotonic()
        try:
            body, content_type, lines = by.reply.write(answer, self.asked)
        except InferenceError as error:
            fail(self, error, by.hosted)
            return
        now_s = monotonic()
        seconds = now_s - self.arrived_s
        by.hosted.metrics.answered(seconds=seconds, encoded_s=now_s - computed_s)
        self.tell(seconds)
        if self.asked.stream:
            Pump(self, body, content_type, lines)
        else:
            self.answer(200, body, content_type, lines)

    def tell(self, seconds: float) -> None:
        """Log it if it took long."""
        journal = self.by.reply.journal
        if seconds >= journal.slow_s:
            head = self.head
            request_id = head.request_id or journal.new_id()
            journal.answered(method=head.method, path=head.path, request_id=request_id, seconds=seconds)

    def cancel(self) -> None:
        """Forget it: the client is gone."""
        if self.waits:
            self.waits = False
            batcher = self.by.hosted.batcher
            if batcher is not None:
                batcher.cancel(self)
        else:
            super().cancel()


def finish(jobs: Sequence[Job], answers: Sequence[Answer]) -> None:
    """Answer the inferences of one batch; those of one row that ask for the same are written in one go."""
    if isinstance(answers, Parts) and len(answers.rows) == len(answers.outputs[0]):
        first = jobs[0]
        if type(first) is Inference:
            reply, asked = first.by.reply, first.asked
            alike = [
                job
                for job in jobs
                if type(job) is Inference and job.by.reply is reply and job.asked is asked and not job.cancelled
            ]
            if len(alike) == len(jobs) and _finished(alike, answers.outputs):
                return
    one_by_one(jobs, answers)


def _finished(jobs: Sequence[Inference], outputs: Sequence[Array]) -> bool:
    by, began_s = jobs[0].by, monotonic()
    written = by.reply.each(outputs, jobs[0].asked)
    if written is None:
        return False
    bodies, lines = written
    heads = {size: b"%s%d\r\n" % (lines, size) for size in set(map(len, bodies))}
    for job, body in zip(jobs, bodies, strict=True):
        job.waits = False
        job.connection.send(job, heads[len(body)], body)
    ended_s = monotonic()
    slow_s, metrics = by.reply.journal.slow_s, by.hosted.metrics
    arrivals = Counter([job.arrived_s for job in jobs])
    share_s = (ended_s - began_s) / len(jobs)
    for arrived_s, requests in arrivals.items():
        metrics.answered(seconds=ended_s - arrived_s, encoded_s=share_s * requests, requests=requests)
    if ended_s - min(arrivals) >= slow_s:
        for job in jobs:
            job.tell(ended_s - job.arrived_s)
    return True


class Inferences:
    """Makes what answers the inferences behind one head; `wake` may bring a model back that left for another one."""

    def __init__(self, journal: Journal, *, max_bytes: int) -> None:
        self.journal = journal
        self.max_bytes = max_bytes
        self._replies: dict[tuple[Hosted, bool, bytes | None, bytes], Reply] = {}
        self.wake: Callable[[Hosted, Woken], bool] = _no_wake

    def reply(self, hosted: Hosted, *, sagemaker: bool, accept: bytes | None, lines: bytes) -> Reply:
        """Give the one that writes such answers: heads that differ in a length only have the same."""
        key = (hosted, sagemaker, accept, lines)
        found = self._replies.get(key)
        if found is None:
            if len(self._replies) >= _MOST_REPLIES:
                self._replies.clear()
            found = self._replies[key] = Reply(hosted, self.journal, sagemaker=sagemaker, accept=accept, lines=lines)
        return found

    def forget(self) -> None:
        """Forget the models that were asked: one of them came or went."""
        self._replies.clear()

    def handler(self, head: Head, *, hosted: Hosted, sagemaker: bool, several_models: bool) -> Handler:
        """Give what answers every request with this head."""
        head.opens = Inference
        inferring = _Inferring(self, head, hosted=hosted, sagemaker=sagemaker, several_models=several_models)
        return cast("Handler", inferring.infer)


class _Inferring:
    """What answers the requests behind one head."""

    def __init__(self, all_: Inferences, head: Head, *, hosted: Hosted, sagemaker: bool, several_models: bool) -> None:
        headers = head.headers
        accept = headers.get(b"accept") if sagemaker else None
        self._all = all_
        self.hosted = hosted
        self._wrong = refusal(headers, several_models=several_models) if sagemaker else ""
        lines = echoed(headers) if sagemaker and not self._wrong else b""
        self.reply = all_.reply(hosted, sagemaker=sagemaker, accept=accept, lines=lines)
        self._read = reading(headers, hosted, sagemaker=sagemaker, max_bytes=all_.max_bytes)
        limit_s = within_s(headers, hosted.deadline_s)
        if isinstance(limit_s, str):
            self._wrong, limit_s = self._wrong or limit_s, 0.0
        self._limit_s = limit_s
        self._choosing = self.reply.choosing

    def infer(self, job: Inference) -> None:
        """Read a request and queue it, or say why not."""
        job.by = self
        job.waits = False
        hosted = self.hosted
        batcher = hosted.batcher
        if batcher is None:
            self._wake(job)
            return
        hosted.used_s = arrived_s = job.arrived_s
        limit_s = self._limit_s
        try:
            if self._wrong:
                raise InvalidRequestError(self._wrong)
            if len(job.body) >= _LARGE_BYTES:
                batcher.check(arrived_s, arrived_s + limit_s)
                job.arrays, kind = self._timed(job.body)
            else:
                job.arrays, kind = self._read(job.body)
            job.asked = asked = self.reply.form(kind.asked) if self._choosing else kind.asked
            job.rows = kind.rows
            job.signature = kind.signature
            job.deadline_s = arrived_s + (min(asked.within_s, limit_s))
            job.cancelled = False
            job.division = None
            batcher.submit(job)
        except InferenceError as error:
            fail(job, error, hosted)
        else:
            job.waits = True

    def _timed(self, body: bytes) -> Decoded:
        began_s = monotonic()
        decoded = self._read(body)
        self.hosted.metrics.decoded_s += monotonic() - began_s
        return decoded

    def _wake(self, job: Inference) -> None:
        hosted = self.hosted

        def woken(error: HostingError | None) -> None:
            if error is None and hosted.batcher is not None:
                job.arrived_s = monotonic()  # its deadline is for the inference, not for the loading
                self.infer(job)
                return
            hosted.metrics.unanswered("rejected", seconds=monotonic() - job.arrived_s)
            status = 507 if isinstance(error, NoRoomError) else 503
            job.fail(status, str(error or "server: got a model that left again; try again"), RETRY)

        if not self._all.wake(hosted, woken):
            not_ready(job)


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
