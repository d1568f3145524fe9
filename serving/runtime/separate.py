"""Requests that are computed together without being one tensor: one by one, or joined where their shapes are equal."""

from __future__ import annotations

from collections.abc import Sequence

from serving.batching.stacking import Stacker, split
from serving.errors import InferenceError
from serving.protocol.tensors import Array
from serving.runtime.jobs import Answer
from serving.runtime.workers import Run, Separate

Requests = Sequence[Sequence[Array]]


def one_by_one(run: Run) -> Separate:
    """Run each request alone; one that fails fails alone."""

    def answer(requests: Requests) -> list[Answer]:
        return [_alone(run, request) for request in requests]

    return answer


def by_shape(run: Run) -> Separate:
    """Run requests joined along their rows, a run for those that differ in nothing but their number.

    Where a joined run fails, each of its requests is run alone, so that only those that fail alone fail.
    """

    def answer(requests: Requests) -> list[Answer]:
        groups: dict[tuple[object, ...], list[int]] = {}
        for number, request in enumerate(requests):
            groups.setdefault(tuple(array.shape[1:] for array in request), []).append(number)
        answers: dict[int, Answer] = {}
        for numbers in groups.values():
            answers.update(zip(numbers, _joined(run, [requests[number] for number in numbers]), strict=True))
        return [answers[number] for number in range(len(requests))]

    return answer


def _joined(run: Run, requests: Requests) -> Sequence[Answer]:
    if len(requests) == 1:
        return [_alone(run, requests[0], rows=True)]
    try:
        return split(run(Stacker().stack(requests)), [len(request[0]) for request in requests])
    except InferenceError:
        return [_alone(run, request, rows=True) for request in requests]


def _alone(run: Run, request: Sequence[Array], *, rows: bool = False) -> Answer:
    try:
        outputs = run(request)
        return split(outputs, [len(request[0])])[0] if rows else outputs
    except InferenceError as error:
        return error
