"""One batch to answers: who fails when something fails."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.batching.stacking import Stacker
from serving.errors import DeadlineExceededError, ModelFailedError
from serving.protocol.tensors import Array
from serving.runtime.jobs import Answer, Job
from serving.runtime.workers import Batch, joined, separated
from tests.fakes.batching import Asked


def job(value: float, *, rows: int = 1, deadline_s: float = 1.0) -> Job:
    return Asked(value, rows=rows, at_s=0.0, within_s=deadline_s)


def double(arrays: Sequence[Array]) -> list[Array]:
    if (arrays[0] < 0).any():
        raise ModelFailedError("model: got a negative value")
    return [arrays[0] * 2]


def computed(run: object, jobs: list[Job], *, now_s: float = 0.5) -> Batch:
    batch = Batch(jobs, sum(each.rows for each in jobs), 0.0)
    batch.compute(joined(run), Stacker(), lambda: now_s)  # type: ignore[arg-type]
    return batch


def values(answer: Answer) -> list[float]:
    assert isinstance(answer, list)
    return answer[0].ravel().tolist()


def test_each_job_gets_its_own_rows() -> None:
    batch = computed(double, [job(1.0), job(2.0, rows=3), job(3.0)])
    assert [values(answer) for answer in batch.answers] == [[2.0], [4.0] * 3, [6.0]]
    assert batch.clean


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_exactly_those_fail_that_fail_alone(poisoned: list[bool]) -> None:
    batch = computed(double, [job(-1.0 if bad else number + 1.0) for number, bad in enumerate(poisoned)])
    for number, (bad, answer) in enumerate(zip(poisoned, batch.answers, strict=True)):
        if bad:
            assert isinstance(answer, ModelFailedError)
        else:
            assert values(answer) == [2.0 * (number + 1)]


@pytest.mark.parametrize("size", [2, 32, 500])
def test_one_poisoned_request_costs_logarithmically_many_runs(size: int) -> None:
    runs = []

    def counted(arrays: Sequence[Array]) -> list[Array]:
        runs.append(len(arrays[0]))
        return double(arrays)

    computed(counted, [job(-1.0 if number == size // 3 else 1.0) for number in range(size)])
    assert len(runs) <= 2 * log2(size) + 3
    assert sum(runs) <= 3 * size


def test_a_failing_run_does_not_teach_how_long_a_batch_takes() -> None:
    assert not computed(double, [job(1.0), job(-1.0)]).clean


def test_whoever_has_no_time_left_is_not_run_again() -> None:
    runs = []

    def broken(arrays: Sequence[Array]) -> list[Array]:
        runs.append(len(arrays[0]))
        raise ModelFailedError("model: got nothing right")

    batch = computed(broken, [job(1.0, deadline_s=0.4) for _ in range(64)])
    assert runs == [64]
    assert all(isinstance(answer, DeadlineExceededError) for answer in batch.answers)


def test_a_client_that_left_is_not_run_again() -> None:
    jobs = [job(-1.0), job(1.0), job(2.0)]
    jobs[0].cancelled = True
    rows = []

    def counted(arrays: Sequence[Array]) -> list[Array]:
        rows.append(arrays[0].ravel().tolist())
        return double(arrays)

    batch = computed(counted, jobs)
    assert [values(answer) for answer in batch.answers[1:]] == [[2.0], [4.0]]
    assert rows[0] == [-1.0, 1.0, 2.0]
    assert all(-1.0 not in again for again in rows[1:])


def test_a_model_that_drops_rows_is_asked_one_by_one() -> None:
    """It answers one row whatever it is asked: right for one, and nobody gets a row of another."""
    answers = computed(lambda arrays: [arrays[0][:1] * 2], [job(1.0), job(2.0), job(3.0, rows=2)]).answers
    assert [values(answer) for answer in answers[:2]] == [[2.0], [4.0]]
    assert isinstance(answers[2], ModelFailedError)


def test_an_unforeseen_error_is_an_answer_too() -> None:
    def broken(_: Sequence[Array]) -> list[Array]:
        raise MemoryError

    assert all(isinstance(answer, ModelFailedError) for answer in computed(broken, [job(1.0), job(2.0)]).answers)


@pytest.mark.parametrize("outputs", [None, [None], [1.0], ["text"], [[1.0, 2.0]], 7])
def test_a_model_that_answers_no_arrays_is_an_error_and_no_end_of_the_worker(outputs: object) -> None:
    batch = computed(lambda _: outputs, [job(1.0), job(2.0)])
    assert all(isinstance(answer, ModelFailedError) for answer in batch.answers)


def test_requests_that_must_not_be_joined_are_seen_one_by_one_in_one_call() -> None:
    seen = []

    def separate(requests: Sequence[Sequence[Array]]) -> list[Answer]:
        seen.append([request[0].shape for request in requests])
        return [[request[0] + 1] if request[0][0, 0] > 0 else ModelFailedError("model: no") for request in requests]

    batch = Batch([job(1.0), job(-1.0, rows=2)], 3, 0.0)
    batch.compute(separated(separate), Stacker(), lambda: 0.5)
    assert seen == [[(1, 1), (2, 1)]]
    assert values(batch.answers[0]) == [2.0]
    assert isinstance(batch.answers[1], ModelFailedError)


def test_a_missing_answer_of_requests_seen_one_by_one_is_nobodys() -> None:
    batch = Batch([job(1.0), job(2.0)], 2, 0.0)
    batch.compute(separated(lambda requests: [[requests[0][0]]]), Stacker(), lambda: 0.5)
    assert [isinstance(answer, list) for answer in batch.answers] == [True, True], "each was asked alone"
