"""Batches, who computes them, and who fails when one fails."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from serving.batching.stacking import Stacker, split
from serving.errors import DeadlineExceededError, InferenceError, ModelFailedError
from serving.protocol.tensors import Array
from serving.runtime.jobs import Answer, Job

Run = Callable[[Sequence[Array]], list[Array]]
Separate = Callable[[Sequence[Sequence[Array]]], Sequence[Answer]]
"""Computes requests together that must not be joined along their rows; an answer each, in order."""

Compute = Callable[[Sequence[Job], Stacker], Sequence[Answer]]
"""Answers jobs, or raises an InferenceError of which nobody knows whose it is."""


class Batch:
    """Jobs that are computed together."""

    __slots__ = ("answers", "clean", "jobs", "rows", "seconds", "started_s")

    def __init__(self, jobs: list[Job], rows: int, started_s: float) -> None:
        self.jobs = jobs
        self.rows = rows
        self.started_s = started_s
        self.answers: Sequence[Answer] = ()
        self.seconds = 0.0
        self.clean = True
        """Whether one run answered all, so that its seconds say how long such a batch takes."""

    def compute(self, compute: Compute, stacker: Stacker, clock: Callable[[], float]) -> None:
        """Fill in the answers and the seconds; never raises."""
        try:
            self.answers = _computed(compute, self.jobs, stacker)
        except InferenceError as error:
            self.clean = False
            self.answers = isolated(compute, self.jobs, error, stacker, clock)
        self.seconds = clock() - self.started_s


class Workers(Protocol):
    """Where batches are computed beside the event loop."""

    def start(self, batch: Batch) -> None:
        """Compute a batch, and give it to the batcher's `done` on the loop afterwards."""
        ...

    def close(self) -> None:
        """End once everything that was started is computed."""
        ...


class Threads:
    """Workers that are threads, each with its own memory for large batches."""

    def __init__(
        self, count: int, compute: Compute, *, done: Callable[[Batch], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._compute = compute
        self._done = done
        self._loop = loop
        self._inbox: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._count = count
        for number in range(count):
            threading.Thread(target=self._work, name=f"model-{number}", daemon=True).start()

    def start(self, batch: Batch) -> None:
        """Compute a batch in the first thread that is idle."""
        self._inbox.put(batch)

    def close(self) -> None:
        """End the threads once they have run what they were given."""
        for _ in range(self._count):
            self._inbox.put(None)

    def _work(self) -> None:
        stacker = Stacker()
        while True:
            batch = self._inbox.get()
            if batch is None:
                return
            batch.compute(self._compute, stacker, monotonic)
            try:
                self._loop.call_soon_threadsafe(self._done, batch)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return
            del batch  # or the bodies of its requests would stay until the next one comes


def joined(run: Run) -> Compute:
    """Answer jobs by one run over all their rows."""

    def compute(jobs: Sequence[Job], stacker: Stacker) -> Sequence[Answer]:
        outputs = run(stacker.stack([job.arrays for job in jobs]))
        return split(stacker.owned(outputs), [job.rows for job in jobs])

    return compute


def separated(separate: Separate) -> Compute:
    """Answer jobs by one call that sees each request alone."""

    def compute(jobs: Sequence[Job], stacker: Stacker) -> Sequence[Answer]:
        del stacker
        answers = separate([job.arrays for job in jobs])
        if len(answers) != len(jobs):
            raise ModelFailedError(f"model: got {len(answers)} answers; allowed {len(jobs)}, one a request; report it")
        return answers

    return compute


def _computed(compute: Compute, jobs: Sequence[Job], stacker: Stacker) -> Sequence[Answer]:
    try:
        return compute(jobs, stacker)
    except InferenceError:
        raise
    except Exception as error:  # noqa: BLE001 - a worker that dies would leave every later request without an answer
        raise ModelFailedError(f"model: raised {type(error).__name__}: {error}; allowed an answer; report it") from None


def isolated(
    compute: Compute, jobs: Sequence[Job], error: InferenceError, stacker: Stacker, clock: Callable[[], float]
) -> list[Answer]:
    """Answer jobs that failed together with `error`: halves are run again until only those fail that fail alone.

    One poisoned request among n costs about 2·log2(n) runs. Who has no time left is not run again, so that a model that
    fails always is not asked n times.
    """
    if len(jobs) == 1:
        return [error]
    found: list[Answer] = []
    middle = len(jobs) // 2
    for half in (jobs[:middle], jobs[middle:]):
        now_s = clock()
        wanted = [job for job in half if not job.cancelled and now_s < job.deadline_s]
        answers: list[Answer] = []
        if wanted:
            try:
                answers = list(_computed(compute, wanted, stacker))
            except InferenceError as again:
                answers = isolated(compute, wanted, again, stacker, clock)
        given = dict(zip(map(id, wanted), answers, strict=True))
        found += [given[id(job)] if id(job) in given else too_late(job, now_s) for job in half]
    return found


def too_late(job: Job, now_s: float) -> DeadlineExceededError:
    """Say that a job's time was over before it could be computed."""
    return DeadlineExceededError(
        f"request: got to the head of the queue after {(now_s - job.arrived_s) * 1e3:.0f} ms, too late for "
        f"its deadline of {(job.deadline_s - job.arrived_s) * 1e3:g} ms; allowed an answer in time; try again"
    )
