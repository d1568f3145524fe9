"""Evaluates every alarm of the local CloudWatch at a steady pace, as AWS does, instead of when a metric arrives."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from local.alarms import evaluate
from local.clock import Clock
from local.cloudwatch.samples import Sample

INTERVAL_S = 2.0
_log = logging.getLogger(__name__)


class AlarmStore(Protocol):
    """Alarms, what was published of their metrics, and how an alarm's state is set."""

    def enter(self) -> None:
        """Make the calling task one of the store's account and region."""

    def alarms(self) -> list[dict[str, Any]]:
        """Give the metric alarms as DescribeAlarms does."""

    def samples(self, metric: Mapping[str, Any], since_s: float) -> Iterable[Sample]:
        """Give what was published of exactly one metric, of one unit if it names one."""

    def set_state(self, alarm: Mapping[str, Any], state: str, reason: str, data: str) -> None:
        """Move an alarm to another state."""


class AlarmWatch:
    """Looks at all alarms every two seconds; an alarm that cannot be evaluated is logged and keeps its state."""

    def __init__(self, store: AlarmStore, *, clock: Clock, interval_s: float = INTERVAL_S) -> None:
        self._store = store
        self._clock = clock
        self._interval_s = interval_s
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        """Look until cancelled."""
        self._store.enter()
        while True:
            self.tick(datetime.fromtimestamp(self._clock.now(), UTC))
            await self._clock.sleep(self._interval_s)

    def tick(self, now: datetime) -> None:
        """Look at every alarm once."""
        for alarm in self._store.alarms():
            try:
                self._look(alarm, now)
            except Exception as error:  # noqa: BLE001 - one bad alarm must not end the watch
                self._tell(alarm["AlarmName"], error)

    def _tell(self, name: str, error: Exception) -> None:
        """Log once what is wrong with an alarm: it is looked at again in two seconds."""
        if self._told.get(name) != str(error):
            self._told[name] = str(error)
            _log.error("alarm %s cannot be evaluated", name, exc_info=error)

    def _look(self, alarm: Mapping[str, Any], now: datetime) -> None:
        outcome = evaluate(alarm, self._store.samples, now)
        if outcome.state != alarm["StateValue"]:
            self._store.set_state(alarm, outcome.state, outcome.reason, outcome.data)
