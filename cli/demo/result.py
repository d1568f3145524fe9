"""What the demo saw: one value, written by the story, read by the summary and the report."""

from __future__ import annotations

import os
import platform
from collections import Counter
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path

import numpy as np

from cli.demo.traffic import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the release: relative uplift of the challenger and its always-valid bounds, fractions of 1."""

    stage: int
    share: float
    impressions: int
    estimate: float | None
    lower: float | None
    upper: float | None
    decision: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftWindow:
    """One drift run: the largest score of any feature, and the alarm's state after it."""

    label: str
    score: float
    drifted_share: float
    worst_feature: str
    alarm_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteLatency:
    """Client-side latency of a route in ms over `requests` answers; on a shared laptop, never asserted."""

    requests: int
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, latencies_ms: list[float]) -> RouteLatency:
        """Summarise latencies; at least one is needed."""
        p50, p90, p99 = (round(float(value), 2) for value in np.percentile(latencies_ms, (50, 90, 99)))
        return cls(requests=len(latencies_ms), p50=p50, p90=p90, p99=p99)


@dataclass(slots=True, kw_only=True)
class DemoResult:
    """The story's findings, filled step by step."""

    stage: str
    models: list[dict[str, str]] = field(default_factory=list)
    latencies_ms: dict[str, list[float]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    errors: int = 0
    degraded: int = 0
    by_phase: dict[str, dict[str, int]] = field(default_factory=dict)
    lambda_routes: dict[str, int] = field(default_factory=dict)
    outcomes: int = 0
    looks: list[Look] = field(default_factory=list)
    decision: str = "none"
    reasons: tuple[str, ...] = ()
    weights: dict[str, float] = field(default_factory=dict)
    alias: str = ""
    truth: dict[str, float] = field(default_factory=dict)
    windows: list[DriftWindow] = field(default_factory=list)
    steps: list[tuple[str, float]] = field(default_factory=list)
    report: Path | None = None

    def count(self, answer: Answer) -> None:
        """Count one answer of the prediction API; a shed (503) is documented and no error."""
        self.statuses[answer.status] += 1
        if answer.status == HTTPStatus.OK:
            self.latencies_ms.setdefault(answer.ask.route, []).append(answer.latency_ms)
            self.degraded += bool(answer.document.get("degraded"))
        elif answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
            self.errors += 1

    @property
    def requests(self) -> int:
        """All answered requests through the prediction API."""
        return sum(self.statuses.values())

    @property
    def as_promised(self) -> bool:
        """The better version was found, the drift was noticed, and nothing failed on the way."""
        alarmed = bool(self.windows) and self.windows[-1].alarm_state == "ALARM"
        return self.decision == "promote" and alarmed and not self.errors

    def routes(self) -> dict[str, RouteLatency]:
        """Latency by route."""
        return {route: RouteLatency.of(values) for route, values in sorted(self.latencies_ms.items()) if values}

    def document(self) -> dict[str, object]:
        """Give the JSON document of `streamhub demo --json`."""
        split = self.by_phase.get("canary", {})
        return {
            "stage": self.stage,
            "models": self.models,
            "requests": self.requests,
            "errors": self.errors,
            "degraded": self.degraded,
            "sheds": self.statuses.get(503, 0),
            "by_variant": split,
            "by_phase": self.by_phase,
            "outcomes": self.outcomes,
            "lambda_routes": self.lambda_routes,
            "p99_ms": {route: latency.p99 for route, latency in self.routes().items()},
            "p50_ms": {route: latency.p50 for route, latency in self.routes().items()},
            "machine": machine(),
            "looks": [asdict(look) for look in self.looks],
            "release": {
                "decision": self.decision,
                "reasons": list(self.reasons),
                "weights": self.weights,
                "alias": self.alias,
                "truth": self.truth,
            },
            "drift": {
                "alarm": bool(self.windows) and self.windows[-1].alarm_state == "ALARM",
                "score": self.windows[-1].score if self.windows else 0.0,
                "feature": self.windows[-1].worst_feature if self.windows else "",
            },
            "seconds": {name: round(seconds, 1) for name, seconds in self.steps},
            "report": str(self.report) if self.report is not None else "",
        }


def machine() -> dict[str, object]:
    """The facts a latency must be read with."""
    return {
        "cpus": os.cpu_count() or 0,
        "python": platform.python_version(),
        "system": platform.system(),
        "load_1m": round(os.getloadavg()[0], 2),
    }
