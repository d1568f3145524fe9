"""How many threads run a model: measured when it is loaded, within a time that the load itself bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol, TypeVar

from serving.batching.service_times import ServiceTimes, sizes
from serving.protocol.tensors import Array
from serving.runtime.batcher import INLINE_S
from serving.runtime.runner import repeated
from serving.spec.runtime import Runtime, TritonRuntime

BUDGET_S = 0.3
"""Measuring takes no longer than this, or than the first load and warm-up took: a start at most doubles."""

_REPEATS = 3
_LONGEST_RUN_S = 0.02
_SAME = 0.9
"""Throughput that is as good: more threads for a tenth more are threads that the loop and its clients miss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPlan:
    """Threads inside one run (`intra_op`), branches of the graph at once (`inter_op`), and runs at once (`workers`)."""

    intra_op: int = 1
    inter_op: int = 1
    workers: int = 1

    @property
    def threads(self) -> int:
        """Threads that compute at the same time."""
        return max(self.intra_op, self.inter_op) * self.workers

    def alike(self, other: ThreadPlan) -> bool:
        """Whether a model that was loaded for one serves the other."""
        return (self.intra_op, self.inter_op) == (other.intra_op, other.inter_op)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedThreads:
    """What somebody decided; nothing: measured. `cores` are those of this process."""

    cores: int
    intra_op: int | None = None
    workers: int | None = None

    def of(self, runtime: Runtime) -> AskedThreads:
        """Let a spec decide what nobody else decided."""
        if not isinstance(runtime, TritonRuntime):
            return self
        return replace(
            self,
            intra_op=self.intra_op or runtime.intra_op_threads or None,
            workers=self.workers or (runtime.instances if runtime.instances > 1 else None),
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """One plan: rows a second with all its workers busy, and the seconds of one run among them."""

    plan: ThreadPlan
    rows_s: float
    run_s: float


class Warmed(Protocol):
    """A loaded model as this module needs it."""

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Compute a batch."""
        ...

    def warm_up(self, sample: Sequence[Array], *, max_rows: int) -> ServiceTimes:
        """Run the sample at growing sizes and say how long each took."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


M = TypeVar("M", bound=Warmed)


def plans(asked: AskedThreads) -> Iterator[ThreadPlan]:
    """Give what is worth measuring: one thread first, then what uses more of the cores, most promising first."""
    cores = max(1, asked.cores)
    single = ThreadPlan(intra_op=asked.intra_op or 1, workers=asked.workers or 1)
    yield single
    widths = [asked.intra_op] if asked.intra_op else [1 << at for at in reversed(range(cores.bit_length()))]
    for intra_op in widths:
        plan = ThreadPlan(intra_op=intra_op, workers=asked.workers or max(1, cores // intra_op))
        if plan != single:
            yield plan
    if cores > 1 and not asked.intra_op:
        yield replace(single, inter_op=cores)


def best(measured: Sequence[Measured]) -> ThreadPlan:
    """Choose by throughput; where it is about the same, the fewest threads, then the fastest run."""
    enough = _SAME * max(each.rows_s for each in measured)
    good = [each for each in measured if each.rows_s >= enough]
    return min(good, key=lambda each: (each.plan.threads, each.run_s)).plan


def tuned(
    make: Callable[[ThreadPlan], M],
    sample: Sequence[Array],
    *,
    max_rows: int,
    asked: AskedThreads,
    room: Callable[[], bool] = lambda: True,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[M, ServiceTimes, ThreadPlan]:
    """Load a model with the threads that run it best on this machine, and warm it.

    Where runs are shorter than the way to a thread and back there is nothing to choose. Else every other plan is
    measured while there is time, with a batch that one thread runs in 20 ms, on as many workers as the plan has; those
    that need the model loaded a second time beside the first only if there is `room` for it.

    Raises:
        ArchiveError: the model cannot be loaded.
        ModelFailedError: the sample does not run.

    """
    began_s = clock()
    first, *others = plans(asked)
    model = make(first)
    load_s = clock() - began_s
    times = model.warm_up(sample, max_rows=max_rows)
    warm_s = clock() - began_s
    if times.seconds(max_rows) < INLINE_S or not others:
        return model, times, first
    rows = max((size for size in sizes(max_rows) if times.seconds(size) <= _LONGEST_RUN_S), default=1)
    batch = [repeated(array, rows) for array in sample] if max_rows > 1 else list(sample)
    until_s = clock() + max(BUDGET_S, warm_s)
    found = [_measure(model, first, batch, rows, clock)]
    for plan in others:
        alike = plan.alike(first)
        if clock() + (0.0 if alike else load_s) + found[-1].run_s * _REPEATS > until_s or not (alike or room()):
            continue
        other = model if alike else make(plan)
        found.append(_measure(other, plan, batch, rows, clock))
        if other is not model:
            other.close()
    chosen = best(found)
    if chosen.alike(first):
        return model, times, chosen
    model.close()
    model = make(chosen)
    return model, model.warm_up(sample, max_rows=max_rows), chosen


def _measure(
    model: Warmed, plan: ThreadPlan, batch: Sequence[Array], rows: int, clock: Callable[[], float]
) -> Measured:
    def runs(_: int) -> list[float]:
        return [_timed(model, batch, clock) for _ in range(_REPEATS)]

    model.run(batch)  # the first run of a shape allocates
    with ThreadPoolExecutor(plan.workers) as workers:
        run_s = median(seconds for each in workers.map(runs, range(plan.workers)) for seconds in each)
    return Measured(plan, plan.workers * rows / max(run_s, 1e-9), run_s)


def _timed(model: Warmed, batch: Sequence[Array], clock: Callable[[], float]) -> float:
    started_s = clock()
    model.run(batch)
    return clock() - started_s
