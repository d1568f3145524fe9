"""The document, put together of parts that are read at their own pace; a part that fails hides no other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from local.faults import Faults
from local.page.actions import in_force, kinds
from local.page.document import (
    MAX_FAULTS,
    MAX_TARGETS,
    Alarm,
    DriftWindow,
    Endpoint,
    FaultInForce,
    Problem,
    Release,
    State,
    TrafficTarget,
    short,
)
from local.page.traffic import Target
from serving.errors import StreamHubError

T = TypeVar("T")

OFTEN_S: Final = 1.5
SOMETIMES_S: Final = 3.5
SELDOM_S: Final = 8.0
"""Reading is what a page costs the stack that it shows: alarms and evidence are large, drift changes once an hour."""

_log = logging.getLogger(__name__)


class Part(Generic[T]):
    """One part of the document: read at most every so many seconds, kept when it cannot be read."""

    def __init__(self, name: str, read: Callable[[], T], *, first: T, every_s: float = OFTEN_S) -> None:
        self._name = name
        self._read = read
        self._held = first
        self._every_s = every_s
        self._due_s = 0.0
        self.problem: Problem | None = None

    def get(self, monotonic_s: float) -> T:
        """Give the part as it was read last."""
        if monotonic_s < self._due_s:
            return self._held
        try:
            self._held = self._read()
            self.problem = None
        except (StreamHubError, BotoCoreError, ClientError) as error:
            self.problem = Problem(part=self._name, text=short(str(error)))
        except Exception as error:  # noqa: BLE001 - one broken part must not hide the others
            _log.exception("part %s of the page cannot be read", self._name)
            self.problem = Problem(part=self._name, text=short(f"{type(error).__name__}: {error}"))
        self._due_s = monotonic_s + self._every_s
        return self._held

    def forget(self) -> None:
        """Read it anew the next time."""
        self._due_s = 0.0


class EndpointSource(Protocol):
    """Where endpoints come from."""

    def read(self, now: datetime) -> tuple[list[Endpoint], int]:
        """Give endpoints, and how many were left off."""
        ...


class ReleaseSource(Protocol):
    """Where releases come from."""

    def read(self, endpoints: Sequence[Endpoint], now: datetime) -> tuple[list[Release], list[str], int]:
        """Give releases, the models without one, and how many models were left off."""
        ...


class DriftSource(Protocol):
    """Where drift comes from."""

    def read(self) -> tuple[list[DriftWindow], int]:
        """Give windows, and how much was left off."""
        ...


class AlarmSource(Protocol):
    """Where alarms come from."""

    def read(self) -> tuple[list[Alarm], int]:
        """Give alarms, and how many were left off."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """All that the document is made of."""

    endpoints: EndpointSource
    releases: ReleaseSource
    drift: DriftSource
    alarms: AlarmSource
    faults: Faults
    targets: Callable[[], Sequence[Target]]


class StateReader:
    """Gives the document; many viewers at once cost one reading."""

    def __init__(
        self, sources: Sources, *, stage: str, now: Callable[[], datetime], monotonic_s: Callable[[], float]
    ) -> None:
        self._stage = stage
        self._now = now
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._endpoints = Part[tuple[list[Endpoint], int]](
            "endpoints", lambda: sources.endpoints.read(now()), first=([], 0)
        )
        self._releases = Part[tuple[list[Release], list[str], int]](
            "releases",
            lambda: sources.releases.read(self._endpoints.get(monotonic_s())[0], now()),
            first=([], [], 0),
            every_s=SOMETIMES_S,
        )
        self._drift = Part[tuple[list[DriftWindow], int]]("drift", sources.drift.read, first=([], 0), every_s=SELDOM_S)
        self._alarms = Part[tuple[list[Alarm], int]]("alarms", sources.alarms.read, first=([], 0), every_s=SOMETIMES_S)
        self._faults = Part[list[FaultInForce]](
            "faults", lambda: [in_force(fault) for fault in sources.faults.all()], first=[]
        )
        self._targets = Part[list[TrafficTarget]](
            "traffic", lambda: [target.shown for target in sources.targets()], first=[]
        )

    def read(self) -> State:
        """Give the document as of now."""
        with self._lock:
            return self._read(self._monotonic_s())

    def changed(self) -> None:
        """Read anew the next time what an action may have changed."""
        with self._lock:
            for part in (self._endpoints, self._faults, self._alarms):
                part.forget()

    def _read(self, at_s: float) -> State:
        endpoints, endpoints_left = self._endpoints.get(at_s)
        releases, without, releases_left = self._releases.get(at_s)
        drift, drift_left = self._drift.get(at_s)
        alarms, alarms_left = self._alarms.get(at_s)
        faults, targets = self._faults.get(at_s), self._targets.get(at_s)
        left_off = {
            "endpoints": endpoints_left,
            "releases": releases_left,
            "drift": drift_left,
            "alarms": alarms_left,
            "faults": max(0, len(faults) - MAX_FAULTS),
            "traffic": max(0, len(targets) - MAX_TARGETS),
        }
        parts = (self._endpoints, self._releases, self._drift, self._alarms, self._faults, self._targets)
        return State(
            stage=self._stage,
            at=self._now(),
            endpoints=endpoints,
            releases=releases,
            models_without_release=without,
            drift=drift,
            alarms=alarms,
            faults=faults[:MAX_FAULTS],
            fault_kinds=kinds(),
            targets=targets[:MAX_TARGETS],
            problems=[part.problem for part in parts if part.problem is not None],
            left_off={part: count for part, count in left_off.items() if count},
        )
