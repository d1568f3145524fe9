"""The page's document: everything it shows, in frozen types, versioned and bounded in size.

Times are UTC in RFC 3339, latencies milliseconds, shares 0 to 1. A part that could not be read keeps what was read
last and says so in `problems`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

import orjson

VERSION: Final = 1
"""Raised when a field changes its meaning or goes; a page of another version asks to be loaded again."""

MAX_ENDPOINTS: Final = 20
MAX_VARIANTS: Final = 4
MAX_RELEASES: Final = 24
MAX_LOOKS: Final = 100
MAX_TRANSITIONS: Final = 12
MAX_DRIFT_WINDOWS: Final = 24
MAX_FEATURES: Final = 40
MAX_ALARMS: Final = 150
MAX_FAULTS: Final = 50
MAX_TARGETS: Final = 50
MAX_TEXT: Final = 300

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One period of a variant's traffic; latencies are None where nothing was measured."""

    at: datetime
    requests: int
    errors: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One variant of an endpoint; `version` is "" where the stage does not say, `recent` is the last minute."""

    name: str
    version: str
    share: float
    desired_share: float
    instances: int
    desired_instances: int
    recent: Point
    points: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One endpoint; `budget_p99_ms` is None where no model's spec has one for it, `period_s` that of its points."""

    name: str
    model: str
    status: str
    failure: str
    budget_p99_ms: float | None
    period_s: int
    variants: Sequence[Variant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One gate of a release: passed, failed or not-enough-data, and why."""

    name: str
    verdict: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The click rate's relative uplift at one moment of one stage, between its always-valid bounds."""

    at: datetime
    stage: int
    impressions: int
    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One move of a release: to where, by whom, why."""

    at: datetime
    state: str
    share: float
    actor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A model's release as `streamhub release status` gives it; `min_uplift` is None without a click metric.

    Of one that is `terminal`, `decision`, `rule` and `gates` are those that ended it; no gates where a person did.
    """

    model: str
    release_id: str
    state: str
    terminal: bool
    challenger: str
    challenger_version: str
    production: str
    production_version: str
    stage: int
    stages: int
    share: float
    actor: str
    reason: str
    started_at: datetime
    updated_at: datetime
    decision: str
    rule: str
    gates: Sequence[Gate]
    follows: bool
    note: str
    min_uplift: float | None
    looks: Sequence[Look]
    transitions: Sequence[Transition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature of the newest drift window; `size` is its stability index above chance."""

    name: str
    level: str
    drifted: bool
    significant: bool
    size: float
    missing_share: float
    unseen_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftWindow:
    """The newest drift report of one slot and the sizes that warn and alarm."""

    model: str
    slot: str
    version: str
    start: datetime
    end: datetime
    verdict: str
    text: str
    rows: int
    requests: int
    warn_size: float
    alarm_size: float
    features: Sequence[Feature]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One alarm of CloudWatch: what it watches, its state, since when, and why.

    One that `scales` belongs to target tracking: in ALARM it calls for fewer or more instances, which is no trouble.
    """

    name: str
    state: str
    since: datetime
    watches: str
    reason: str
    scales: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInForce:
    """One fault that was asked for."""

    name: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """A fault that can be asked for: what it does, and which fields of the form it takes."""

    kind: str
    does: str
    takes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficTarget:
    """Something that can be asked for predictions: a route of the API, or an endpoint itself."""

    id: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A part that could not be read, in words."""

    part: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The whole document; `left_off` counts what did not fit, by part."""

    version: int = VERSION
    stage: str
    at: datetime
    endpoints: Sequence[Endpoint]
    releases: Sequence[Release]
    models_without_release: Sequence[str]
    drift: Sequence[DriftWindow]
    alarms: Sequence[Alarm]
    faults: Sequence[FaultInForce]
    fault_kinds: Sequence[FaultKind]
    targets: Sequence[TrafficTarget]
    problems: Sequence[Problem]
    left_off: dict[str, int]

    def encode(self) -> bytes:
        """Give the JSON document."""
        return orjson.dumps(self, option=orjson.OPT_UTC_Z)


def short(text: str) -> str:
    """Cut a text that comes from outside to what a line of the page holds."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def thinned(items: Sequence[T], most: int) -> Sequence[T]:
    """Keep at most so many, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return items
    step = (len(items) - 1) / (most - 1)
    return [items[round(index * step)] for index in range(most)]
