"""How many threads: pure choices, and the tuning of models whose run times are made up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.batching.service_times import ServiceTimes
from serving.protocol.tensors import Array
from serving.runtime.threads import AskedThreads, Measured, ThreadPlan, best, plans, tuned
from serving.spec.runtime import TritonRuntime, VllmRuntime

ONE = ThreadPlan()


@given(st.integers(1, 96))
def test_no_plan_has_more_threads_than_cores_and_one_thread_comes_first(cores: int) -> None:
    found = list(plans(AskedThreads(cores=cores)))
    assert found[0] == ONE
    assert all(plan.threads <= cores for plan in found)
    assert len(set(found)) == len(found)


def test_two_cores_may_be_two_threads_of_a_run_two_runs_or_two_branches() -> None:
    assert list(plans(AskedThreads(cores=2))) == [
        ONE,
        ThreadPlan(intra_op=2),
        ThreadPlan(workers=2),
        ThreadPlan(inter_op=2),
    ]


@given(st.integers(1, 64), st.integers(1, 64))
def test_what_somebody_decided_is_not_measured(intra_op: int, workers: int) -> None:
    assert list(plans(AskedThreads(cores=8, intra_op=intra_op, workers=workers))) == [
        ThreadPlan(intra_op=intra_op, workers=workers)
    ]


def test_who_starts_the_server_decides_before_the_spec_and_the_spec_before_a_measurement() -> None:
    spec = TritonRuntime(device="cpu", intra_op_threads=3, instances=2)
    assert AskedThreads(cores=4).of(spec) == AskedThreads(cores=4, intra_op=3, workers=2)
    assert AskedThreads(cores=4, intra_op=1, workers=1).of(spec) == AskedThreads(cores=4, intra_op=1, workers=1)
    assert AskedThreads(cores=4).of(TritonRuntime(device="cpu")) == AskedThreads(cores=4)
    assert AskedThreads(cores=4).of(VllmRuntime()) == AskedThreads(cores=4)


def test_throughput_decides() -> None:
    assert best([Measured(ONE, 100.0, 0.3), Measured(ThreadPlan(workers=2), 190.0, 0.32)]) == ThreadPlan(workers=2)


def test_threads_that_give_little_are_left_to_the_loop() -> None:
    assert best([Measured(ONE, 100.0, 0.3), Measured(ThreadPlan(intra_op=2), 109.0, 0.28)]) == ONE


def test_among_equals_the_faster_run_wins() -> None:
    wide, many = ThreadPlan(intra_op=2), ThreadPlan(workers=2)
    assert best([Measured(ONE, 100.0, 0.3), Measured(many, 195.0, 0.31), Measured(wide, 185.0, 0.16)]) == wide


class OwnTime(threading.local):
    """A clock that each thread has for itself, so that runs at once take no time from each other."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


OWN_TIME = OwnTime()


class Model:
    """A model whose runs take what a function of its plan says, on the clock of their thread."""

    def __init__(self, plan: ThreadPlan, run_s: Callable[[ThreadPlan, int], float]) -> None:
        self.plan, self._run_s, self.closed = plan, run_s, False

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        assert not self.closed
        OWN_TIME.now_s += self._run_s(self.plan, len(arrays[0]))
        return list(arrays)

    def warm_up(self, sample: Sequence[Array], *, max_rows: int) -> ServiceTimes:
        assert sample
        seconds = [(rows, self._run_s(self.plan, rows)) for rows in (1, max_rows)]
        return ServiceTimes.measured(seconds, max_rows=max_rows)

    def close(self) -> None:
        self.closed = True


def tune(
    run_s: Callable[[ThreadPlan, int], float],
    asked: AskedThreads,
    *,
    room: bool = True,
    clock: Callable[[], float] = OWN_TIME,
) -> tuple[list[Model], Model, ThreadPlan]:
    made: list[Model] = []

    def make(plan: ThreadPlan) -> Model:
        made.append(Model(plan, run_s))
        return made[-1]

    model, _, plan = tuned(make, [np.zeros((1, 2))], max_rows=32, asked=asked, room=lambda: room, clock=clock)
    assert [each.closed for each in made if each is not model] == [True] * (len(made) - 1)
    assert not model.closed
    return made, model, plan


def test_a_model_that_gains_by_wide_runs_gets_them() -> None:
    _, model, plan = tune(lambda plan, rows: (0.002 + 0.0001 * rows) / plan.intra_op, AskedThreads(cores=2))
    assert plan == model.plan == ThreadPlan(intra_op=2)


def test_a_model_that_gains_by_nothing_but_runs_at_once_gets_workers() -> None:
    made, model, plan = tune(lambda _, rows: 0.002 + 0.0001 * rows, AskedThreads(cores=2))
    assert plan == ThreadPlan(workers=2)
    assert model is made[0], "it is not loaded again for that"


def test_a_model_of_the_shortest_runs_is_not_measured() -> None:
    made, _, plan = tune(lambda _, rows: 1e-5 * rows, AskedThreads(cores=8))
    assert len(made) == 1
    assert plan == ONE


def test_one_core_leaves_nothing_to_choose() -> None:
    made, _, plan = tune(lambda _, rows: 0.002 * rows, AskedThreads(cores=1))
    assert len(made) == 1
    assert plan == ONE


def test_a_model_that_fits_the_memory_once_is_loaded_once() -> None:
    made, _, plan = tune(lambda plan, rows: (0.002 + 0.0001 * rows) / plan.intra_op, AskedThreads(cores=2), room=False)
    assert len(made) == 1
    assert plan == ThreadPlan(workers=2)


@pytest.mark.parametrize(("tick_s", "most"), [(0.0, 4), (10.0, 2)])
def test_measuring_ends_when_its_time_is_over(tick_s: float, most: int) -> None:
    now_s = 0.0

    def clock() -> float:
        nonlocal now_s
        now_s += tick_s
        return now_s

    made, _, _ = tune(lambda _, rows: 0.001 * rows, AskedThreads(cores=2), clock=clock)
    assert len(made) <= most
