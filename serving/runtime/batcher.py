"""Queues, workers and the loop between them; what to do next is decided by `serving.batching.policy`.

Everything here happens on the event loop, so nothing needs a lock. Dispatch waits for the end of the loop's iteration:
requests that arrived together form a batch, and a lone one still goes at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from math import ceil
from time import monotonic  # uvloop's own clock ticks in milliseconds

from serving.batching.policy import Caps, Step, next_step, refuse
from serving.batching.service_times import ServiceTimes
from serving.batching.stacking import Stacker
from serving.errors import OverloadedError
from serving.runtime.jobs import Answer, Division, Job, Signature, finish
from serving.runtime.metrics import Metrics
from serving.runtime.workers import Batch, Run, Separate, Threads, Workers, joined, separated, too_late

INLINE_S = 0.001
"""A run predicted to be shorter is done on the loop: waking a worker and its way back cost as much as the run."""

_TURN_S = 0.005
"""After so long of short runs the loop looks at its sockets again: a health check has 50 ms."""

_RATE_SMOOTHING = 0.2

CallSoon = Callable[[Callable[[], None]], object]
Finish = Callable[[Sequence[Job], Sequence[Answer]], None]


class Batcher:
    """The queue of one model and its workers.

    `inline` allows short runs on the loop; it is for models whose run time follows from the number of rows. `separate`
    is used instead of `run` where requests must not be joined. Time comes from `clock`, the one that jobs have their
    times of. `call_soon` says when to look at what was submitted, the loop's own if it is not given; `finish` gives the
    jobs of a batch their answers.
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
        call_soon: CallSoon | None = None,
        finish: Finish = finish,
        clock: Callable[[], float] = monotonic,
        workers: Workers | None = None,
        separate: Separate | None = None,
    ) -> None:
        self._compute = compute = joined(run) if separate is None else separated(separate)
        self._caps = caps
        self.times = times
        self._inline = inline
        self._call_soon = call_soon if call_soon is not None else loop.call_soon
        self._finish = finish
        self._metrics = metrics
        self._clock = clock
        self._stacker = Stacker()
        self._queues: dict[Signature, deque[Job]] = {}
        self._running: list[Batch] = []
        self._free_s = 0.0
        self._full_s = caps.margin * times.seconds(caps.max_rows)
        self._scheduled = False
        self.waiting = 0
        self._waiting_rows = 0
        self._arrived_rows = 0
        self._arrived_s = 0.0
        self._unread = 0
        self._reading_s = 0.0
        self._rate = 0.0
        self._rated_s = clock()
        self._workers = workers if workers is not None else Threads(caps.workers, compute, done=self.done, loop=loop)

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
        """Queue a job; one of more rows than a batch may have is computed in parts.

        Raises:
            OverloadedError: it would not be answered in time, so it was not queued.

        """
        rows, max_rows = job.rows, self._caps.max_rows
        rows_then = self._waiting_rows + rows
        if (
            self._running
            or rows_then > max_rows
            or self.waiting >= self._caps.max_waiting
            or job.deadline_s - job.arrived_s < self._full_s
        ) and not self.idle:
            self._admit(rows, job.arrived_s, job.deadline_s)  # else it is in the next batch, however full that gets
        if rows > max_rows:
            for part in Division(job, max_rows=max_rows, drop=self._drop).parts:
                self._queue(part)
        else:
            self._queue(job)
        self._waiting_rows = rows_then
        self._arrived_rows += rows
        self._arrived_s = job.arrived_s
        self._unread += 1
        if not self._scheduled:
            self._schedule()

    def check(self, arrived_s: float, deadline_s: float) -> None:
        """Refuse a request before anybody decodes it, if not even one row of it would be answered in time.

        Raises:
            OverloadedError: it would not.

        """
        if self._running:
            self._admit(1, arrived_s, deadline_s)

    def cancel(self, job: Job) -> None:
        """Forget a job whose client is gone; one that runs already is computed and thrown away."""
        if job.division is None:
            self._drop(job)
        else:
            job.division.cancel()
        self._metrics.outcomes["cancelled"] += 1

    def close(self) -> None:
        """End the workers once they have run what they were given."""
        self._workers.close()

    def done(self, batch: Batch) -> None:
        """Take a batch that a worker has computed."""
        self._running.remove(batch)
        self._predict_free()
        if self.waiting:  # the worker computes while the answers below are written
            self._dispatch()
        self._deliver(batch)

    def _queue(self, job: Job) -> None:
        waiting = self._queues.get(job.signature)
        if waiting is None:
            waiting = self._queues[job.signature] = deque()
        waiting.append(job)
        self.waiting += 1

    def _drop(self, job: Job) -> None:
        job.cancelled = True
        waiting = self._queues.get(job.signature)
        if waiting is not None and job in waiting:
            waiting.remove(job)
            self._left(job)
            if not waiting:
                del self._queues[job.signature]

    def _schedule(self) -> None:
        self._scheduled = True
        self._call_soon(self._dispatch)

    def _admit(self, rows: int, now_s: float, deadline_s: float) -> None:
        after_s = refuse(
            rows,
            deadline_in_s=deadline_s - now_s,
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
                f"allowed what fits its deadline of {(deadline_s - now_s) * 1e3:g} ms; "
                f"try again in {retry_after_s} s",
                retry_after_s=retry_after_s,
            )

    def _dispatch(self) -> None:
        self._scheduled = False
        began_s = now_s = self._clock()
        if self._unread:
            self._count_reading(now_s)
        while self.waiting:
            if now_s - began_s > _TURN_S:
                if not self._scheduled:
                    self._schedule()
                return
            idle = self._caps.workers - len(self._running)
            queues = list(self._queues.values())
            step = next_step(queues, idle_workers=idle, now_s=now_s, caps=self._caps, times=self.times)
            if step.queue < 0:
                return
            self._take(queues[step.queue], step, now_s)
            now_s = self._clock()

    def _count_reading(self, now_s: float) -> None:
        """Count what came together as read until now; what it waits from here on, it waits in the queue."""
        read_s = self._unread * max(0.0, now_s - self._arrived_s)
        self._metrics.decoded_s += read_s
        self._reading_s += read_s
        self._unread = 0

    def _take(self, waiting: deque[Job], step: Step, now_s: float) -> None:
        late = [waiting.popleft() for _ in range(step.late)]
        if step.take == len(waiting):
            jobs = list(waiting)
            del self._queues[(jobs or late)[0].signature]
        else:
            jobs = [waiting.popleft() for _ in range(step.take)]
        for job in late:
            self._left(job)
        self.waiting -= len(jobs)
        self._waiting_rows -= step.rows
        for job in late:
            if not job.cancelled:  # a part goes with the part before it
                job.finish(too_late(job, now_s))
        if jobs:
            self._measure_rate(now_s)
            self._start(Batch(jobs, step.rows, now_s))

    def _start(self, batch: Batch) -> None:
        if self._inline and self.times.seconds(batch.rows) < INLINE_S:
            batch.compute(self._compute, self._stacker, self._clock)
            self._deliver(batch)
        else:
            self._running.append(batch)
            self._predict_free()
            self._workers.start(batch)

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

    def _deliver(self, batch: Batch) -> None:
        if batch.clean:
            self.times = times = self.times.after(batch.rows, batch.seconds)
            self._full_s = self._caps.margin * times.seconds(self._caps.max_rows)
        jobs, started_s = batch.jobs, batch.started_s
        queued_s = max(0.0, len(jobs) * started_s - sum([job.arrived_s for job in jobs]) - self._reading_s)
        self._reading_s = 0.0
        waited_s = started_s - jobs[0].arrived_s
        self._metrics.ran(batch.rows, seconds=batch.seconds, waited_s=waited_s, requests=len(jobs), queued_s=queued_s)
        self._finish(jobs, batch.answers)
