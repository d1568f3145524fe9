"""Evidence of one release stage: counters by unit bucket and a latency histogram; merging is addition.

Units (users, contents, sessions) are randomised, not requests: counters are kept by 256 buckets of units, so that
the spread between buckets carries how requests of one unit hang together (docs/releases.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import add

from serving.telemetry.histogram import Histogram

UNIT_BUCKETS = 256
_NO_COUNTS = (0,) * UNIT_BUCKETS
_NO_SUMS = (0.0,) * UNIT_BUCKETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one slot saw in one stage of one release.

    `impressions` counts every assigned request, failed ones too: leaving failures out would flatter a variant that
    loses its hard requests. `clicks`, `errors` and `watch_s` are of those impressions. Each has 256 entries.
    """

    impressions: tuple[int, ...] = _NO_COUNTS
    clicks: tuple[int, ...] = _NO_COUNTS
    errors: tuple[int, ...] = _NO_COUNTS
    watch_s: tuple[float, ...] = _NO_SUMS
    latency: Histogram = field(default_factory=Histogram)

    def __post_init__(self) -> None:
        """Refuse another number of buckets: merging would cut it short in silence."""
        for name in ("impressions", "clicks", "errors", "watch_s"):
            if len(getattr(self, name)) != UNIT_BUCKETS:
                raise ValueError(f"{name}: got {len(getattr(self, name))} buckets; allowed {UNIT_BUCKETS}")

    @property
    def total_impressions(self) -> int:
        """Requests assigned to the slot."""
        return sum(self.impressions)

    @property
    def total_clicks(self) -> int:
        """Clicks on them; one in a bucket without an impression, whose exposure was lost, is on none."""
        return sum(clicks for clicks, shown in zip(self.clicks, self.impressions, strict=True) if shown)

    @property
    def total_watch_s(self) -> float:
        """Seconds watched after them, counted likewise."""
        return sum(seconds for seconds, shown in zip(self.watch_s, self.impressions, strict=True) if shown)

    @property
    def total_errors(self) -> int:
        """Requests that failed."""
        return sum(self.errors)

    @property
    def used_buckets(self) -> int:
        """Unit buckets with at least one impression."""
        return sum(1 for count in self.impressions if count)

    def merge(self, other: Evidence) -> Evidence:
        """Add two pieces of evidence of the same slot and stage."""
        return Evidence(
            impressions=tuple(map(add, self.impressions, other.impressions)),
            clicks=tuple(map(add, self.clicks, other.clicks)),
            errors=tuple(map(add, self.errors, other.errors)),
            watch_s=tuple(map(add, self.watch_s, other.watch_s)),
            latency=self.latency.merge(other.latency),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEvidence:
    """Both slots of one stage, seen at the same time."""

    control: Evidence = field(default_factory=Evidence)
    challenger: Evidence = field(default_factory=Evidence)
