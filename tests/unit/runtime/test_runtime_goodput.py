"""Streams of requests through the batcher on a clock of its own: who is answered in time, and who is not let in."""

from __future__ import annotations

import random
from heapq import heappop, heappush
from itertools import count

import pytest

from serving.batching.policy import Caps
from serving.errors import OverloadedError
from serving.runtime.workers import Batch
from tests.fakes.batching import MAX_ROWS, Asked, Server


def load(server: Server, rate: float, *, seconds: float, within_s: float, rare: float = 0.0) -> tuple[list[Asked], int]:
    """Send single rows as a Poisson stream does, whatever the server answers; gives the jobs and how many were shed.

    A share of `rare` has another shape than the rest.
    """
    generator, order = random.Random(7), count()  # noqa: S311 - a seeded stream of arrivals
    events: list[
        tuple[float, int, Batch | None]
    ] = []  # when, in which order, and which run ends then: none, one arrives
    jobs, shed, known = [], 0, set[int]()
    heappush(events, (generator.expovariate(rate), next(order), None))
    while events:
        server.clock.now_s, _, ending = heappop(events)
        if ending is None:
            try:
                jobs.append(server.ask(within_s=within_s, signature=((int(generator.random() < rare),),)))
            except OverloadedError:
                shed += 1
            if (then := server.clock.now_s + generator.expovariate(rate)) < seconds:
                heappush(events, (then, next(order), None))
            server.loop.turn()
        else:
            known.remove(id(server.end(ending)))
        for batch in server.bench.started:
            if id(batch) not in known:
                known.add(id(batch))
                heappush(events, (batch.started_s + server.seconds(batch.rows), next(order), batch))
    return jobs, shed


COSTS = {
    "heavy": (0.010, 0.0005, 0.100),
    "heavy and tight": (0.010, 0.0005, 0.050),
    "light": (0.0003, 0.00002, 0.020),
    "by the row": (0.002, 0.002, 0.100),
}
"""Seconds a batch, seconds a row, deadline."""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("overload", [1.5, 3.0])
@pytest.mark.parametrize("cost", COSTS)
def test_goodput_under_overload_is_that_of_full_capacity(cost: str, overload: float, workers: int) -> None:
    batch_s, row_s, within_s = COSTS[cost]
    noise = random.Random(3)  # noqa: S311 - a machine that is not quite regular
    caps = Caps(max_rows=MAX_ROWS, max_waiting=256 * workers, workers=workers)
    server = Server(seconds=lambda rows: batch_s + row_s * rows, caps=caps)
    server.seconds = lambda rows: (batch_s + row_s * rows) * noise.uniform(0.95, 1.05)
    capacity = workers * MAX_ROWS / (batch_s + row_s * MAX_ROWS)
    seconds = 6000 / capacity
    jobs, shed = load(server, overload * capacity, seconds=seconds, within_s=within_s)
    good = sum(isinstance(job.answers[0], list) and job.finished_s <= job.deadline_s for job in jobs)
    assert good >= 0.95 * capacity * seconds
    assert shed > 0


@pytest.mark.parametrize("cost", COSTS)
def test_nobody_is_refused_while_there_is_capacity(cost: str) -> None:
    batch_s, row_s, within_s = COSTS[cost]
    server = Server(seconds=lambda rows: batch_s + row_s * rows)
    capacity = MAX_ROWS / server.seconds(MAX_ROWS)
    jobs, shed = load(server, 0.7 * capacity, seconds=3000 / capacity, within_s=within_s)
    assert shed == 0
    assert all(isinstance(job.answers[0], list) and job.finished_s <= job.deadline_s for job in jobs)


def test_a_rare_shape_waits_no_longer_than_the_frequent_one() -> None:
    batch_s, row_s, within_s = COSTS["heavy"]
    server = Server(seconds=lambda rows: batch_s + row_s * rows)
    capacity = MAX_ROWS / server.seconds(MAX_ROWS)
    jobs, _ = load(server, 1.5 * capacity, seconds=3000 / capacity, within_s=within_s, rare=0.02)
    in_time = {shape: [job for job in jobs if job.signature == ((shape,),)] for shape in (0, 1)}
    shares = {
        shape: sum(isinstance(job.answers[0], list) for job in of_shape) / len(of_shape)
        for shape, of_shape in in_time.items()
    }
    assert shares[1] >= 0.9 * shares[0]
    assert shares[0] > 0.5
