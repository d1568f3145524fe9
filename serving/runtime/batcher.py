"""Queues, workers and the loop between them; what to do next is decided by `serving.batching.policy`.

Everything but `_work` happens on the event loop, so nothing here needs a lock. Dispatch waits for the end of the loop's
iteration: requests that arrived together form a batch, and a lone one still goes at once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from math import ceil
from time import monotonic  # uvloop's own clock ticks in milliseconds

from serving.batching.policy import Caps, ServiceTimes, Step, next_step, refuse
from serving.batching.stacking import split, stack
from serving.errors import DeadlineExceededError, InferenceError, ModelFailedError, OverloadedError
from serving.protocol.tensors import Array
from serving.runtime.metrics import Metrics

Signature = tuple[tuple[int, ...], ...]
Answer = list[Array] | InferenceError
Run = Callable[[Sequence[Array]], list[Array]]

INLINE_S = 0.001
"""A run predicted to be shorter is done on the loop: waking a worker and its way back cost as much as the run."""

_RATE_SMOOTHING = 0.2


class Job(ABC):
    """One request among others; `finish` is called once, on the loop, unless it was cancelled."""

    __slots__ = ("arrays", "arrived_s", "cancelled", "deadline_s", "rows", "signature")

    def __init__(
        self, arrays: list[Array], signature: Signature, rows: int, arrived_s: float, deadline_s: float
    ) -> None:
        self.arrays = arrays
        self.signature = signature
        self.rows = rows
        self.arrived_s = arrived_s
        self.deadline_s = deadline_s
        self.cancelled = False

    @abstractmethod
    def finish(self, answer: Answer) -> None:
        """Take the outputs, or why there are none."""


class _Batch:
    __slots__ = ("answers", "jobs", "rows", "seconds", "started_s")

    def __init__(self, jobs: list[Job], rows: int, started_s: float) -> None:
        self.jobs = jobs
        self.rows = rows
        self.started_s = started_s
        self.answers: Sequence[Answer] = ()
        self.seconds = 0.0


class Batcher:
    """The queue of one model and its workers.

    `inline` allows short runs on the loop; it is for models whose run time follows from the number of rows.
    """

    def __init__(
        self,
        run: Run,
        *,
        caps: Caps,
        times: ServiceTimes,
        inline: bool,
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics,
    ) -> None:
        self._run = run
        self._caps = caps
        self.times = times
        self._inline = inline
        self._loop = loop
        self._metrics = metrics
        self._queues: dict[Signature, deque[Job]] = {}
        self._running: list[_Batch] = []
        self._free_s = 0.0
        self._full_s = caps.margin * times.seconds(caps.max_rows)
        self._scheduled = False
        self.waiting = 0
        self._waiting_rows = 0
        self._arrived_rows = 0
        self._rate = 0.0
        self._rated_s = monotonic()
        self._inbox: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"model-{number}", daemon=True) for number in range(caps.workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self.waiting and not self._running

    @property
    def running(self) -> int:
        """How many batches are being computed."""
        return len(self._running)

    def running_s(self, now_s: float) -> float:
        """For how long the oldest run has been going on."""
        return max((now_s - batch.started_s for batch in self._running), default=0.0)

    def submit(self, job: Job) -> None:
        """Queue a job.

        Raises:
            OverloadedError: it would not be answered in time, so it was not queued.

        """
        rows_then = self._waiting_rows + job.rows
        if (
            self._running
            or rows_then > self._caps.max_rows
            or self.waiting >= self._caps.max_waiting
            or job.deadline_s - job.arrived_s < self._full_s
        ) and not self.idle:
            self._admit(job)  # else it is in the next batch, however full that gets
        waiting = self._queues.get(job.signature)
        if waiting is None:
            waiting = self._queues[job.signature] = deque()
        waiting.append(job)
        self.waiting += 1
        self._waiting_rows = rows_then
        self._arrived_rows += job.rows
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._dispatch)

    def cancel(self, job: Job) -> None:
        """Forget a job whose client is gone; one that runs already is computed and thrown away."""
        job.cancelled = True
        waiting = self._queues.get(job.signature)
        if waiting is not None and job in waiting:
            waiting.remove(job)
            self._left(job)
            if not waiting:
                del self._queues[job.signature]
        self._metrics.outcomes["cancelled"] += 1

    def close(self) -> None:
        """End the workers once they have run what they were given."""
        for _ in self._threads:
            self._inbox.put(None)

    def _admit(self, job: Job) -> None:
        now_s = job.arrived_s
        after_s = refuse(
            job.rows,
            deadline_in_s=job.deadline_s - now_s,
            waiting=self.waiting,
            waiting_rows=self._waiting_rows,
            busy_s=max(0.0, self._free_s - now_s),
            arriving_rows_s=self._rate,
            caps=self._caps,
            times=self.times,
        )
        if after_s is not None:
            retry_after_s = max(1, ceil(after_s))
            raise OverloadedError(
                f"server: got a request behind {self.waiting} others, too many to answer it in time; "
                f"allowed what fits its deadline of {(job.deadline_s - now_s) * 1e3:g} ms; "
                f"try again in {retry_after_s} s",
                retry_after_s=retry_after_s,
            )

    def _dispatch(self) -> None:
        self._scheduled = False
        now_s = monotonic()
        while self.waiting:
            idle = self._caps.workers - len(self._running)
            queues = list(self._queues.values())
            step = next_step(queues, idle_workers=idle, now_s=now_s, caps=self._caps, times=self.times)
            if step.queue < 0:
                return
            self._take(queues[step.queue], step, now_s)
            now_s = monotonic()

    def _take(self, waiting: deque[Job], step: Step, now_s: float) -> None:
        late = [waiting.popleft() for _ in range(step.late)]
        jobs = [waiting.popleft() for _ in range(step.take)]
        if not waiting:
            del self._queues[(jobs or late)[0].signature]
        for job in late:
            self._left(job)
            job.finish(_too_late(job, now_s))
        if jobs:
            self.waiting -= len(jobs)
            self._waiting_rows -= step.rows
            self._measure_rate(now_s)
            batch = _Batch(jobs, step.rows, now_s)
            if self._inline and self.times.seconds(step.rows) < INLINE_S:
                self._compute(batch)
                self._deliver(batch)
            else:
                self._running.append(batch)
                self._predict_free()
                self._inbox.put(batch)

    def _left(self, job: Job) -> None:
        self.waiting -= 1
        self._waiting_rows -= job.rows

    def _measure_rate(self, now_s: float) -> None:
        elapsed = now_s - self._rated_s
        if elapsed > 0:
            self._rate += _RATE_SMOOTHING * (self._arrived_rows / elapsed - self._rate)
            self._arrived_rows, self._rated_s = 0, now_s

    def _predict_free(self) -> None:
        busy = len(self._running) >= self._caps.workers
        self._free_s = min(b.started_s + self.times.seconds(b.rows) for b in self._running) if busy else 0.0

    def _compute(self, batch: _Batch) -> None:
        batch.answers = answers(self._run, batch.jobs)
        batch.seconds = monotonic() - batch.started_s

    def _work(self) -> None:
        while True:
            batch = self._inbox.get()
            if batch is None:
                return
            self._compute(batch)
            try:
                self._loop.call_soon_threadsafe(self._done, batch)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return
            del batch  # or the bodies of its requests would stay until the next one comes

    def _done(self, batch: _Batch) -> None:
        self._running.remove(batch)
        self._predict_free()
        if self.waiting:  # the worker computes while the answers below are written
            self._dispatch()
        self._deliver(batch)

    def _deliver(self, batch: _Batch) -> None:
        self.times = times = self.times.after(batch.rows, batch.seconds)
        self._full_s = self._caps.margin * times.seconds(self._caps.max_rows)
        self._metrics.ran(batch.rows, seconds=batch.seconds, waited_s=batch.started_s - batch.jobs[0].arrived_s)
        for job, answer in zip(batch.jobs, batch.answers, strict=True):
            if not job.cancelled:
                job.finish(answer)


def answers(run: Run, jobs: Sequence[Job]) -> Sequence[Answer]:
    """Run jobs as one batch; when that fails, each alone, so that only those that fail alone fail."""
    try:
        return split(run(stack([job.arrays for job in jobs])), [job.rows for job in jobs])
    except ModelFailedError as error:
        if len(jobs) == 1:
            return [error]
    except Exception as error:  # noqa: BLE001 - a worker that dies would leave every later request without an answer
        if len(jobs) == 1:
            return [ModelFailedError(f"model: raised {type(error).__name__}: {error}; allowed an answer; report it")]
    return [answers(run, [job])[0] for job in jobs]


def _too_late(job: Job, now_s: float) -> DeadlineExceededError:
    return DeadlineExceededError(
        f"request: got to the head of the queue after {(now_s - job.arrived_s) * 1e3:.0f} ms, too late for "
        f"its deadline of {(job.deadline_s - job.arrived_s) * 1e3:g} ms; allowed an answer in time; try again"
    )
