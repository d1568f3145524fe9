"""What became of requests: answered by a model, by a fallback, shed, refused, or lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus

import numpy as np

from cli.demo.traffic import LOST, Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of requests to one API; `degraded` answers are answers, and say why by name.

    A shed request (503 with Retry-After) is documented and may come again: it is neither lost nor an error.
    """

    sent: int = 0
    answered: int = 0
    degraded: int = 0
    shed: int = 0
    errors: int = 0
    lost: int = 0
    by_version: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, answers: Iterable[Answer], *, success: HTTPStatus = HTTPStatus.OK) -> Tally:
        """Count answers."""
        statuses: Counter[int] = Counter()
        versions: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        degraded = 0
        for answer in answers:
            statuses[answer.status] += 1
            if answer.status == success and "model_version" in answer.document:
                versions[str(answer.document["model_version"])] += 1
                named = answer.document.get("degraded")
                degraded += bool(named)
                reasons.update(named if isinstance(named, list) else [])
        answered, shed, lost = statuses[success], statuses[HTTPStatus.SERVICE_UNAVAILABLE], statuses[LOST]
        return cls(
            sent=statuses.total(),
            answered=answered,
            degraded=degraded,
            shed=shed,
            errors=statuses.total() - answered - shed - lost,
            lost=lost,
            by_version=dict(sorted(versions.items())),
            reasons=dict(sorted(reasons.items())),
        )

    def __add__(self, other: Tally) -> Tally:
        """Give both together."""
        return Tally(
            sent=self.sent + other.sent,
            answered=self.answered + other.answered,
            degraded=self.degraded + other.degraded,
            shed=self.shed + other.shed,
            errors=self.errors + other.errors,
            lost=self.lost + other.lost,
            by_version=_summed(self.by_version, other.by_version),
            reasons=_summed(self.reasons, other.reasons),
        )

    @property
    def all_answered(self) -> bool:
        """Every request got an answer that its client can use."""
        return self.answered == self.sent

    def share(self, version: str) -> float:
        """Give the part of the answers that came from a version, 0 to 1; 0 of no answers."""
        total = sum(self.by_version.values())
        return self.by_version.get(version, 0) / total if total else 0.0


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


def _summed(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return dict(sorted((Counter(left) + Counter(right)).items()))
