"""A batcher with everything around it replaced: its loop, its clock, its workers and its clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from serving.batching.policy import Caps
from serving.batching.service_times import ServiceTimes
from serving.batching.stacking import Stacker
from serving.errors import InferenceError, ModelFailedError
from serving.protocol.tensors import Array
from serving.runtime.batcher import Batcher
from serving.runtime.jobs import Answer, Division, Signature
from serving.runtime.metrics import Metrics
from serving.runtime.workers import Batch, joined

MAX_ROWS = 32


class Loop:
    """An event loop that knows nothing but `call_soon`: whoever asks it for a timer fails."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def turn(self) -> None:
        """Do one iteration."""
        for _ in range(len(self._soon)):
            self._soon.popleft()()


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Bench:
    """Workers that hold what they were given until the test says that it is computed."""

    def __init__(self) -> None:
        self.started: list[Batch] = []
        self.closed = False

    def start(self, batch: Batch) -> None:
        self.started.append(batch)

    def close(self) -> None:
        self.closed = True


class Asked:
    def __init__(self, value: float, *, rows: int, at_s: float, within_s: float, signature: Signature = ()) -> None:
        self.arrays: list[Array] = [np.full((rows, 1), value)]
        self.signature = signature
        self.rows = rows
        self.arrived_s, self.deadline_s = at_s, at_s + within_s
        self.cancelled = False
        self.division: Division | None = None
        self.answers: list[Answer] = []
        self.finished_s = -1.0
        self.clock: Callable[[], float] = lambda: 0.0

    def finish(self, answer: Answer) -> None:
        self.answers.append(answer)
        self.finished_s = self.clock()

    @property
    def values(self) -> list[float]:
        (answer,) = self.answers
        assert isinstance(answer, list)
        return answer[0].ravel().tolist()

    @property
    def error(self) -> InferenceError:
        (answer,) = self.answers
        assert isinstance(answer, InferenceError)
        return answer


def negative_fails(arrays: Sequence[Array]) -> list[Array]:
    if (arrays[0] < 0).any():
        raise ModelFailedError("model: got a negative value")
    return [arrays[0] * 2]


@dataclass
class Server:
    """A batcher with everything around it replaced; runs take what `seconds` says."""

    seconds: Callable[[int], float] = lambda rows: 0.010 + 0.0005 * rows
    caps: Caps = field(default_factory=lambda: Caps(max_rows=MAX_ROWS, max_waiting=256))
    inline: bool = False

    def __post_init__(self) -> None:
        self.loop, self.clock, self.bench, self.metrics = Loop(), Clock(), Bench(), Metrics()
        points = [(1 << at, self.seconds(1 << at)) for at in range(self.caps.max_rows.bit_length())]
        self.batcher = Batcher(
            self.run,
            caps=self.caps,
            times=ServiceTimes.measured(points, max_rows=self.caps.max_rows),
            inline=self.inline,
            loop=self.loop,  # type: ignore[arg-type]
            metrics=self.metrics,
            clock=self.clock,
            workers=self.bench,
        )

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        self.clock.now_s += self.seconds(len(arrays[0]))
        return negative_fails(arrays)

    def ask(self, value: float = 1.0, *, rows: int = 1, within_s: float = 1.0, signature: Signature = ()) -> Asked:
        job = Asked(value, rows=rows, at_s=self.clock.now_s, within_s=within_s, signature=signature)
        job.clock = self.clock
        self.batcher.submit(job)
        return job

    def compute(self) -> Batch:
        """Let the oldest run end, at the time it takes."""
        batch = self.bench.started[0]
        self.clock.now_s = max(self.clock.now_s, batch.started_s + self.seconds(batch.rows))
        return self.end(batch)

    def end(self, batch: Batch) -> Batch:
        """Let a run end now."""
        self.bench.started.remove(batch)
        now_s = self.clock.now_s
        batch.compute(joined(negative_fails), Stacker(), lambda: now_s)
        self.batcher.done(batch)
        return batch

    def until_idle(self) -> None:
        self.loop.turn()
        while self.bench.started:
            self.compute()
            self.loop.turn()
        assert self.batcher.idle
        assert self.batcher.waiting == 0
