"""What a batcher does next, as pure functions: who runs now, who is too late, who is not let in.

Rows and delay are caps, never targets: an idle worker takes what waits at once, so nobody is ever held for a window,
and batches form by themselves while the workers are busy. Times are seconds of one monotonic clock, given as arguments.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

_SMOOTHING = 0.1
_MOST_SLOWDOWN_A_RUN = 10.0


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


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """How long a batch takes: a curve measured at warm-up times one slowdown that every later run corrects.

    One factor for the whole curve, because a size that is thought too slow is never run again: its own average would
    stay wrong for ever.
    """

    curve: tuple[float, ...]
    slowdown: float = 1.0

    @classmethod
    def measured(cls, points: Sequence[tuple[int, float]], *, max_rows: int) -> ServiceTimes:
        """Make the curve of measured (rows, seconds): straight lines between them, never falling.

        Raises:
            ValueError: no points.

        """
        if not points:
            raise ValueError("points: got none; allowed one or more (rows, seconds); measure at least one row")
        known = sorted(points)
        rows = [row for row, _ in known]
        return cls(tuple(_running_maximum([_between(known, rows, n) for n in range(max_rows + 1)])))

    def seconds(self, rows: int) -> float:
        """Predict the run time of a batch of `rows`, at most the largest that was planned for."""
        return self.curve[rows] * self.slowdown

    def after(self, rows: int, seconds: float) -> ServiceTimes:
        """Learn from a run; one freak run counts for little."""
        expected = self.curve[rows]
        ratio = min(seconds / expected, _MOST_SLOWDOWN_A_RUN * self.slowdown) if expected > 0 else 1.0
        return replace(self, slowdown=self.slowdown + _SMOOTHING * (ratio - self.slowdown))


def _between(known: Sequence[tuple[int, float]], rows: Sequence[int], n: int) -> float:
    if len(known) == 1:
        return known[0][1]
    at = min(max(bisect_left(rows, n), 1), len(rows) - 1)
    (left, left_s), (right, right_s) = known[at - 1], known[at]
    if n <= rows[0] or right == left:
        return known[0][1] if n <= rows[0] else right_s
    return max(left_s, left_s + (right_s - left_s) * (n - left) / (right - left))


def _running_maximum(values: Sequence[float]) -> list[float]:
    highest, result = 0.0, []
    for value in values:
        highest = max(highest, value)
        result.append(highest)
    return result


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
    """Say what to do now; `queues` hold one tensor signature each, oldest first.

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
    take, rows, tightest_s = _fill(queue, 0, caps)
    if now_s + caps.margin * times.seconds(rows) <= tightest_s:
        return Step(chosen, 0, take, rows)
    others = sum(map(len, queues)) - len(queue)
    return _under_pressure(queue, chosen, now_s=now_s, caps=caps, times=times, others=others)


def _fill(queue: Sequence[Waiting], start: int, caps: Caps) -> tuple[int, int, float]:
    take, rows, tightest_s = 0, 0, inf
    for number, waiting in enumerate(queue):
        if number < start:
            continue
        if take and rows + waiting.rows > caps.max_rows:
            break
        take += 1
        rows += waiting.rows
        tightest_s = min(tightest_s, waiting.deadline_s)
    return take, rows, tightest_s


def _under_pressure(
    queue: Sequence[Waiting], chosen: int, *, now_s: float, caps: Caps, times: ServiceTimes, others: int
) -> Step:
    late = 0
    for waiting in queue:
        _, rows, _ = _fill(queue, late, caps)
        in_time = now_s + caps.margin * times.seconds(rows) <= waiting.deadline_s
        last = others + len(queue) - late == 1
        if in_time or (last and now_s < waiting.deadline_s):
            break
        late += 1
    take, rows, tightest_s = 0, 0, inf
    for number, waiting in enumerate(queue):
        if number < late:
            continue
        more = rows + waiting.rows
        if take and more > caps.max_rows:
            break
        tightest_s = min(tightest_s, waiting.deadline_s)
        if take and now_s + caps.margin * times.seconds(more) > tightest_s:
            break
        take, rows = take + 1, more
    return Step(chosen, late, take, rows)


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
    that wait now only, half of the requests that are let in under overload miss.
    """
    if waiting == 0 and busy_s <= 0:
        return None
    full, rest = divmod(waiting_rows + rows - 1, caps.max_rows)
    wait_s = (busy_s + full * times.seconds(caps.max_rows)) / caps.workers
    size = min(caps.max_rows, rest + 1 + int(arriving_rows_s * wait_s))
    eta_s = wait_s + times.seconds(size)
    if waiting < caps.max_waiting and caps.margin * eta_s <= deadline_in_s:
        return None
    return wait_s
