"""One batch to answers: who fails when something fails."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from serving.errors import ModelFailedError
from serving.protocol.tensors import Array
from serving.runtime.batcher import Answer, Job, answers


class Asked(Job):
    """A job that nobody waits for."""

    def finish(self, answer: Answer) -> None:
        """Nothing to do: `answers` gives the answers itself."""


def job(value: float, *, rows: int = 1) -> Job:
    array = np.full((rows, 1), value, dtype=np.float32)
    return Asked([array], (), rows, 0.0, 1.0)


def double(arrays: Sequence[Array]) -> list[Array]:
    if (arrays[0] < 0).any():
        raise ModelFailedError("model: got a negative value")
    return [arrays[0] * 2]


def test_each_job_gets_its_own_rows() -> None:
    got = answers(double, [job(1.0), job(2.0, rows=3), job(3.0)])
    assert [answer[0].ravel().tolist() for answer in got if isinstance(answer, list)] == [[2.0], [4.0] * 3, [6.0]]


def test_only_what_fails_alone_fails() -> None:
    got = answers(double, [job(1.0), job(-1.0), job(3.0)])
    assert isinstance(got[1], ModelFailedError)
    assert [answer[0].item() for answer in (got[0], got[2]) if isinstance(answer, list)] == [2.0, 6.0]


def test_a_model_that_drops_rows_is_asked_one_by_one() -> None:
    """It answers one row whatever it is asked: right for one, and nobody gets a row of another."""
    got = answers(lambda arrays: [arrays[0][:1] * 2], [job(1.0), job(2.0), job(3.0, rows=2)])
    assert [answer[0].item() for answer in got[:2] if isinstance(answer, list)] == [2.0, 4.0]
    assert isinstance(got[2], ModelFailedError)


def test_an_unforeseen_error_is_an_answer_too() -> None:
    def broken(_: Sequence[Array]) -> list[Array]:
        raise MemoryError

    assert all(isinstance(answer, ModelFailedError) for answer in answers(broken, [job(1.0), job(2.0)]))
