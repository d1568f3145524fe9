"""A Triton ensemble: its steps one after the other, a request's tensors handed on by name.

Source: triton-inference-server/server, docs/user_guide/ensemble_models.md. Requests that wait together go through the
steps together; between the steps they are requests, not one tensor, since a step may give each another shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serving.errors import InferenceError, ModelFailedError
from serving.protocol.served import ServedModel
from serving.protocol.tensors import Array
from serving.runtime.jobs import Answer
from serving.runtime.runner import Runner
from serving.runtime.separate import by_shape, one_by_one
from serving.runtime.workers import Separate
from serving.spec.runtime import EnsembleStepSpec


@dataclass(frozen=True, slots=True)
class Step:
    """One model of an ensemble; what it reads and writes has the names of the ensemble."""

    runner: Runner
    answer: Separate
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @classmethod
    def of(cls, spec: EnsembleStepSpec, runner: Runner, *, batched: bool) -> Step:
        """Wire a loaded step as its spec says."""
        return cls(
            runner,
            runner.separate or (by_shape(runner.run) if batched else one_by_one(runner.run)),
            tuple(spec.reads.get(tensor.name, tensor.name) for tensor in spec.inputs),
            tuple(spec.writes.get(tensor.name, tensor.name) for tensor in spec.outputs),
        )


class Ensemble(Runner):
    """Steps in the order of the spec, where each reads what was written before."""

    def __init__(self, served: ServedModel, steps: Sequence[Step]) -> None:
        self._inputs = [tensor.name for tensor in served.inputs]
        self._outputs = [tensor.name for tensor in served.outputs]
        self._steps = steps
        self.separate = self._answer

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Give the outputs of one request.

        Raises:
            ModelFailedError: a step raised, or gave what its spec does not say.
            InvalidRequestError: a Python step says that the request is wrong.

        """
        (answer,) = self._answer([arrays])
        if isinstance(answer, InferenceError):
            raise answer
        return answer

    def close(self) -> None:
        """Free the steps."""
        for step in self._steps:
            step.runner.close()

    def _answer(self, requests: Sequence[Sequence[Array]]) -> list[Answer]:
        known = [dict(zip(self._inputs, arrays, strict=True)) for arrays in requests]
        failed: dict[int, InferenceError] = {}
        for step in self._steps:
            alive = [number for number in range(len(requests)) if number not in failed]
            if not alive:
                break
            answers = _through(step, [[known[number][name] for name in step.reads] for number in alive])
            for number, answer in zip(alive, answers, strict=True):
                if isinstance(answer, InferenceError):
                    failed[number] = answer
                else:
                    known[number].update(zip(step.writes, answer, strict=True))
        return [
            failed[number] if number in failed else [tensors[name] for name in self._outputs]
            for number, tensors in enumerate(known)
        ]


def _through(step: Step, requests: Sequence[Sequence[Array]]) -> Sequence[Answer]:
    """Answer each; when a step fails for all, each alone, so that only those that fail alone fail."""
    try:
        return step.answer(requests)
    except ModelFailedError as error:
        if len(requests) == 1:
            return [error]
    return [_through(step, [request])[0] for request in requests]
