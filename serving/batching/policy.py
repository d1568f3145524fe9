"""What a batcher does next, as pure functions: who runs now, who is too late, who is not let in.

Rows and delay are caps, never targets: an idle worker takes what waits at once, so nobody is ever held for a window,
and batches form by themselves while the workers are busy. A batch is no larger than pays: where a row costs the same in
a smaller one, its callers have their answers sooner. Times are seconds of one monotonic clock, given as arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Protocol

from serving.batching.service_times import ServiceTimes


class Waiting(Protocol):
    """One request in a queue: its rows, when it came and when its answer is worth nothing any more."""

    @property
    def rows(self) -> int:
        """Rows of every input; at least 1."""
        ...

    @property
    def arrived_s(self) -> float:
        """When it was queued."""
        ...

    @property
    def deadline_s(self) -> float:
        """When an answer is too late."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Limits of one model: rows a batch, requests that may wait, executors, and how pessimistic predictions are."""

    max_rows: int
    max_waiting: int
    workers: int = 1
    margin: float = 1.1
    divides: bool = True
    """Whether larger requests are computed in parts."""

    @property
    def most_rows(self) -> int:
        """Rows of the largest request: one batch, or as many full ones as may wait."""
        return self.max_rows * self.max_waiting if self.divides else self.max_rows


@dataclass(frozen=True, slots=True)
class Step:
    """Of the queue numbered `queue`: the first `late` get no answer in time, the next `take` run now (`rows` in all).

    `queue` is -1 when there is nothing to do until a worker is idle or a request comes.
    """

    queue: int
    late: int = 0
    take: int = 0
    rows: int = 0


NOTHING = Step(-1)


def next_step(
    queues: Sequence[Sequence[Waiting]], *, idle_workers: int, now_s: float, caps: Caps, times: ServiceTimes
) -> Step:
    """Say what to do now; `queues` hold one tensor signature each, oldest first; `times` are those of `caps.max_rows`.

    The queue with the oldest head goes first. A request that cannot be answered in time in the batch it would be in
    is late; dropping by the time of a lone run instead would fill overloaded batches with requests that miss. The
    last one that waits runs whatever the prediction says, or a wrong prediction could never be corrected.
    """
    if idle_workers < 1:
        return NOTHING
    chosen, oldest_s = -1, inf
    for number, queue in enumerate(queues):
        if queue and queue[0].arrived_s < oldest_s:
            chosen, oldest_s = number, queue[0].arrived_s
    if chosen < 0:
        return NOTHING
    queue = queues[chosen]
    take, rows, tightest_s = _fill(queue, times.worth_rows)
    if now_s + caps.margin * times.seconds(rows) <= tightest_s:
        return Step(chosen, 0, take, rows)
    others = sum(map(len, queues)) - len(queue)
    return _under_pressure(queue, chosen, now_s=now_s, caps=caps, times=times, others=others)


def _fill(queue: Sequence[Waiting], most_rows: int) -> tuple[int, int, float]:
    if len(queue) <= most_rows and (all_rows := sum([waiting.rows for waiting in queue])) <= most_rows:
        return len(queue), all_rows, min([waiting.deadline_s for waiting in queue])
    take, rows, tightest_s = 0, 0, inf
    for waiting in queue:
        if take and rows + waiting.rows > most_rows:
            break
        take += 1
        rows += waiting.rows
        tightest_s = min(tightest_s, waiting.deadline_s)
    return take, rows, tightest_s


def _under_pressure(
    queue: Sequence[Waiting], chosen: int, *, now_s: float, caps: Caps, times: ServiceTimes, others: int
) -> Step:
    late = _late(queue, now_s=now_s, caps=caps, times=times, others=others)
    take, rows, tightest_s = 0, 0, inf
    for waiting in islice(queue, late, None):
        more = rows + waiting.rows
        if take and more > times.worth_rows:
            break
        tightest_s = min(tightest_s, waiting.deadline_s)
        if take and now_s + caps.margin * times.seconds(more) > tightest_s:
            break
        take, rows = take + 1, more
    return Step(chosen, late, take, rows)


def _late(queue: Sequence[Waiting], *, now_s: float, caps: Caps, times: ServiceTimes, others: int) -> int:
    """Count the heads that are late; once over the queue, because it is longest when there is no time to lose."""
    rows, ends = 0, iter(queue)  # rows of the batch that the head would be in, and what comes behind that batch
    behind = next(ends, None)
    for late, head in enumerate(queue):
        while behind is not None and (rows == 0 or rows + behind.rows <= times.worth_rows):
            rows += behind.rows
            behind = next(ends, None)
        in_time = now_s + caps.margin * times.seconds(rows) <= head.deadline_s
        last = others + len(queue) - late == 1
        if in_time or (last and now_s < head.deadline_s):
            return late
        rows -= head.rows
    return len(queue)


def refuse(
    rows: int,
    *,
    deadline_in_s: float,
    waiting: int,
    waiting_rows: int,
    busy_s: float,
    arriving_rows_s: float,
    caps: Caps,
    times: ServiceTimes,
) -> float | None:
    """Give the seconds after which to try again when a request would not be answered in time; None: let it in.

    `waiting` requests with `waiting_rows` are ahead of it, a worker is free in `busy_s` (0: one is idle), and rows come
    in at a rate of `arriving_rows_s`. Its batch is taken as large as it will have grown when it starts: with the rows
    that wait now only, half of the requests that are let in under overload miss. More rows than a batch may have are
    several requests of one batch each.
    """
    if waiting == 0 and busy_s <= 0:
        return None
    full, rest = divmod(waiting_rows + rows - 1, times.worth_rows)
    wait_s = (busy_s + full * times.seconds(times.worth_rows)) / caps.workers
    size = min(times.worth_rows, rest + 1 + int(arriving_rows_s * wait_s))
    eta_s = wait_s + times.seconds(size)
    batches = -(-rows // caps.max_rows)
    if waiting + batches <= caps.max_waiting and caps.margin * eta_s <= deadline_in_s:
        return None
    return wait_s
