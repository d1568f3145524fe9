"""What waits for a model: a request, and the parts of one that is larger than a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from serving.batching.stacking import divide, join
from serving.errors import InferenceError
from serving.protocol.tensors import Array

Signature = tuple[tuple[int, ...], ...]
Answer = list[Array] | InferenceError


class Job(Protocol):
    """One request among others; `finish` is called once, on the loop, unless it was cancelled.

    `division` holds its parts, while it is computed in some.
    """

    arrays: list[Array]
    signature: Signature
    rows: int
    arrived_s: float
    deadline_s: float
    cancelled: bool
    division: Division | None

    def finish(self, answer: Answer) -> None:
        """Take the outputs, or why there are none."""
        ...


def finish(jobs: Sequence[Job], answers: Sequence[Answer]) -> None:
    """Give each job its answer, but for those that nobody waits for any more."""
    for job, answer in zip(jobs, answers, strict=True):
        if not job.cancelled:
            job.finish(answer)


class Division:
    """A request of more rows than a batch may have, as jobs of at most `max_rows`; it is answered whole or not at all.

    The first part that fails fails the request, and `drop` is called for the others: nobody waits for them any more.
    """

    def __init__(self, whole: Job, *, max_rows: int, drop: Callable[[Job], None]) -> None:
        self._whole = whole
        self._drop = drop
        self._failed = False
        self.parts = [
            _Part(self, whole, number, arrays) for number, arrays in enumerate(divide(whole.arrays, max_rows=max_rows))
        ]
        self._answers: list[list[Array] | None] = [None] * len(self.parts)
        self._missing = len(self.parts)
        whole.division = self

    def take(self, number: int, answer: Answer) -> None:
        """Keep the answer of one part, and give the whole its own once it is known."""
        if self._failed:
            return
        if isinstance(answer, InferenceError):
            self._fail(answer)
            return
        self._answers[number] = answer
        self._missing -= 1
        if not self._missing:
            try:
                outputs = join(cast("list[list[Array]]", self._answers))
            except InferenceError as error:
                self._fail(error)
            else:
                self._end(outputs)

    def _fail(self, error: InferenceError) -> None:
        self._failed = True
        self.cancel()
        self._end(error)

    def _end(self, answer: Answer) -> None:
        self._whole.division = None
        self._whole.finish(answer)

    def cancel(self) -> None:
        """Forget the parts that were not computed yet."""
        for part in self.parts:
            self._drop(part)


class _Part:
    """A job itself; it is never divided again."""

    division: Division | None = None

    def __init__(self, of: Division, whole: Job, number: int, arrays: list[Array]) -> None:
        self.arrays = arrays
        self.signature = whole.signature
        self.rows = len(arrays[0])
        self.arrived_s = whole.arrived_s
        self.deadline_s = whole.deadline_s
        self.cancelled = False
        self._of = of
        self._number = number

    def finish(self, answer: Answer) -> None:
        self._of.take(self._number, answer)
