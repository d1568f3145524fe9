"""The models of one server: which there are, what each is doing, and what a route needs to answer for one.

Everything here happens on the event loop; loading itself does not (`serving.runtime.loading`).
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from time import monotonic

from serving.batching.policy import Caps
from serving.protocol.served import ServedModel
from serving.runtime.batcher import Batcher, CallSoon, Finish
from serving.runtime.jobs import finish
from serving.runtime.loading import Loaded
from serving.runtime.metrics import Metrics
from serving.runtime.plans import AnswerWriter, RequestReader
from serving.runtime.runner import Runner
from serving.spec.runtime import TritonRuntime

TRITON_VERSION = "1"
"""The version folder every archive has; clients of Triton ask for it."""

_STUCK_S = 60.0
"""A run longer than SageMaker's limit of an invocation will not end."""


class State(StrEnum):
    """What a model is doing, in the words of Triton's repository index."""

    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


class Hosted:
    """One model of the server; `batcher` is there while it is ready."""

    __slots__ = (
        "batcher",
        "deadline_s",
        "metrics",
        "name",
        "reader",
        "reason",
        "runner",
        "served",
        "state",
        "used_s",
        "writer",
    )

    def __init__(self, name: str, served: ServedModel, *, max_rows: int) -> None:
        self.name = name
        self.served = served
        self.reader = RequestReader(served, max_rows=max_rows)
        self.writer = AnswerWriter(served)
        self.metrics = Metrics()
        self.deadline_s = served.deadline_ms / 1e3
        self.state = State.LOADING
        self.reason = ""
        self.used_s = 0.0
        self.batcher: Batcher | None = None
        self.runner: Runner | None = None

    @property
    def platform(self) -> str:
        """What runs it, in Triton's words (model_config.proto, *platform* and *backend*)."""
        runtime = self.served.runtime
        backend = runtime.backend if isinstance(runtime, TritonRuntime) else runtime.kind
        return {"onnxruntime": "onnxruntime_onnx"}.get(backend, backend)

    @property
    def versions(self) -> tuple[str, str]:
        """What a client may call its version: the one it was packaged with, or its folder's."""
        return self.served.version, TRITON_VERSION

    @property
    def idle(self) -> bool:
        """Whether nothing waits for it and nothing runs."""
        return self.batcher is None or self.batcher.idle

    @property
    def ready(self) -> bool:
        """Whether a request sent now would be answered."""
        return self.batcher is not None and not self.stuck

    @property
    def stuck(self) -> bool:
        """Whether a run goes on for longer than anybody waits."""
        return self.batcher is not None and self.batcher.running_s(monotonic()) >= _STUCK_S

    def serve(
        self,
        loaded: Loaded,
        *,
        caps: Caps,
        loop: AbstractEventLoop,
        call_soon: CallSoon | None = None,
        finish: Finish = finish,
    ) -> None:
        """Become ready; `call_soon` and `finish` are those of a `Batcher`."""
        runner = loaded.runner
        self.runner = runner
        self.batcher = Batcher(
            runner.run,
            caps=replace(caps, workers=loaded.workers),
            times=loaded.times,
            inline=runner.steady,
            loop=loop,
            metrics=self.metrics,
            separate=runner.separate,
            call_soon=call_soon,
            finish=finish,
        )
        self.state, self.reason = State.READY, ""

    def detach(self, state: State, reason: str) -> Runner | None:
        """Stop being ready; give what is to be closed, which may take long."""
        batcher, self.batcher = self.batcher, None
        runner, self.runner = self.runner, None
        self.state, self.reason = state, reason
        if batcher is not None:
            batcher.close()
        return runner


class Repository:
    """Models by name; `changed` is called after one came or went, so that nobody keeps a route to it."""

    def __init__(self) -> None:
        self._models: dict[str, Hosted] = {}
        self.changed: Callable[[], None] = _nobody
        self.default: Hosted | None = None
        """The model of `/invocations`; none where every request names its own."""
        self.leaving: set[Hosted] = set()
        """Models that no request finds any more, until they have answered those they have."""
        self.failed: dict[str, str] = {}
        """Why models are not here that somebody wanted to load."""
        self.opened = False
        """Whether the models that the server was started with are loaded."""

    def __iter__(self) -> Iterator[Hosted]:
        return iter(self._models.values())

    def get(self, name: str, version: str = "") -> Hosted | None:
        """Find a model, of that version if one is given."""
        hosted = self._models.get(name)
        return hosted if hosted is not None and (not version or version in hosted.versions) else None

    def add(self, hosted: Hosted) -> Hosted | None:
        """Take a model in; give the one that had its name before."""
        before = self._models.get(hosted.name)
        self._models[hosted.name] = hosted
        self.failed.pop(hosted.name, None)
        self.changed()
        return before

    def take(self, name: str) -> Hosted | None:
        """Give a model that no request finds any more; what it was asked before it still answers."""
        hosted = self._models.pop(name, None)
        self.changed()
        return hosted

    @property
    def ready(self) -> bool:
        """Whether the server answers: it loaded what it was started with, and no model is stuck."""
        return self.opened and not any(hosted.stuck for hosted in self)

    @property
    def idle(self) -> bool:
        """Whether every request was answered."""
        return all(hosted.idle for hosted in (*self, *self.leaving))

    def close(self) -> None:
        """Free all models."""
        for hosted in (*self, *self.leaving):
            runner = hosted.detach(State.UNAVAILABLE, "the server is going")
            if runner is not None:
                runner.close()


def _nobody() -> None:
    pass
