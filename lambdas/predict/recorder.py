"""Exposures wait here for at most half a second and go to the sink as batches, before any outcome of theirs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Event, Lock, Thread

from serving.errors import TelemetryError
from serving.ports import RecordSink
from serving.prediction.types import Exposure, Outcome

INTERVAL_S = 0.5
MAX_BATCH = 1_000
MAX_WAITING = 50_000

_log = logging.getLogger(__name__)


class Recorder:
    """Batches exposures; safe for many threads.

    A batch that the sink refuses is sent again unchanged, so that what did arrive of it is not counted twice.
    """

    def __init__(self, sink: RecordSink) -> None:
        self._sink = sink
        self._waiting: list[Exposure] = []
        self._sending: list[Exposure] = []
        self._unsent: set[str] = set()
        self._lock = Lock()
        self._flushing = Lock()
        self._stop = Event()
        self._thread: Thread | None = None

    def start(self, *, interval_s: float = INTERVAL_S) -> None:
        """Flush every `interval_s` in a thread of its own until `close`."""
        self._thread = Thread(target=self._run, args=(interval_s,), name="exposures", daemon=True)
        self._thread.start()

    def add(self, exposure: Exposure) -> None:
        """Take an exposure; beyond `MAX_WAITING` it is dropped and the log says so."""
        with self._lock:
            if len(self._waiting) < MAX_WAITING:
                self._waiting.append(exposure)
                self._unsent.add(exposure.prediction_id)
                return
        _log.warning("exposure dropped: %d wait for the state table already", MAX_WAITING)

    def outcome(self, outcome: Outcome) -> bool:
        """Store an outcome, its exposure first; False when it was there already.

        Raises:
            TelemetryError: the sink cannot be written.

        """
        with self._lock:
            waits = outcome.prediction_id in self._unsent
        if waits:
            self.flush()
        return self._sink.outcome(outcome)

    def flush(self) -> None:
        """Send all that waits now.

        Raises:
            TelemetryError: the sink cannot be written; what waits is kept.

        """
        with self._flushing:
            while batch := self._next():
                self._sink.exposures(batch)
                self._done(batch)

    def close(self) -> None:
        """Stop the thread and send what waits; what cannot be sent is counted in the log."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self.flush()
        except TelemetryError as error:
            _log.warning("%d exposures lost at the end: %s", len(self._unsent), error)

    def _next(self) -> Sequence[Exposure]:
        with self._lock:
            if not self._sending:
                self._sending, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            return self._sending

    def _done(self, batch: Sequence[Exposure]) -> None:
        with self._lock:
            self._unsent.difference_update(exposure.prediction_id for exposure in batch)
            self._sending = []

    def _run(self, interval_s: float) -> None:
        while not self._stop.wait(interval_s):
            try:
                self.flush()
            except TelemetryError as error:
                _log.warning("exposures wait: %s", error)
