"""What the server counted: plain integers written by the event loop, Prometheus text only when somebody asks."""

from __future__ import annotations

from itertools import accumulate

OUTCOMES = ("ok", "invalid", "rejected", "expired", "cancelled", "failed")
_BUCKETS = 28
"""Buckets of durations are powers of two of a microsecond, up to 134 s."""
_ROW_BUCKETS = 14


class Histogram:
    """Counts by power of two: one shift and one addition a value."""

    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0

    def add(self, value: int) -> None:
        """Count one value of 0 or more."""
        self.total += value
        at = (value - 1).bit_length() if value > 0 else 0
        self.counts[min(at, len(self.counts) - 1)] += 1

    def lines(self, name: str, labels: str, *, scale: float) -> list[str]:
        """Give the lines of Prometheus text; `scale` turns the counted unit into the published one."""
        cumulative = list(accumulate(self.counts))
        bounds = [f"{(1 << at) * scale:.9g}" for at in range(len(self.counts) - 1)] + ["+Inf"]
        return [
            *(
                f'{name}_bucket{{{labels},le="{bound}"}} {count}'
                for bound, count in zip(bounds, cumulative, strict=True)
            ),
            f"{name}_sum{{{labels}}} {self.total * scale:.9g}",
            f"{name}_count{{{labels}}} {cumulative[-1]}",
        ]


class Metrics:
    """All counters of one server."""

    __slots__ = ("batch_rows", "compute_us", "executions", "outcomes", "queue_us", "request_us", "rows")

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.rows = 0
        self.executions = 0
        self.batch_rows = Histogram(_ROW_BUCKETS)
        self.queue_us = Histogram(_BUCKETS)
        self.compute_us = Histogram(_BUCKETS)
        self.request_us = Histogram(_BUCKETS)

    def ran(self, rows: int, *, seconds: float, waited_s: float) -> None:
        """Count one run; `waited_s` is how long the first of its requests was queued."""
        self.executions += 1
        self.rows += rows
        self.batch_rows.add(rows)
        self.compute_us.add(int(seconds * 1e6))
        self.queue_us.add(int(waited_s * 1e6))

    def text(self, *, model: str, version: str, gauges: dict[str, float]) -> str:
        """Render as Prometheus text, version 0.0.4."""
        labels = f'model="{model}",version="{version}"'
        lines = ["# TYPE streamhub_requests_total counter"]
        lines += [
            f'streamhub_requests_total{{{labels},outcome="{outcome}"}} {count}'
            for outcome, count in self.outcomes.items()
        ]
        for name, value in (("rows", self.rows), ("executions", self.executions)):
            lines += [f"# TYPE streamhub_{name}_total counter", f"streamhub_{name}_total{{{labels}}} {value}"]
        for name, gauge in gauges.items():
            lines += [f"# TYPE streamhub_{name} gauge", f"streamhub_{name}{{{labels}}} {gauge:.9g}"]
        for name, histogram, scale in (
            ("batch_rows", self.batch_rows, 1.0),
            ("queue_seconds", self.queue_us, 1e-6),
            ("compute_seconds", self.compute_us, 1e-6),
            ("request_seconds", self.request_us, 1e-6),
        ):
            lines.append(f"# TYPE streamhub_{name} histogram")
            lines += histogram.lines(f"streamhub_{name}", labels, scale=scale)
        return "\n".join(lines) + "\n"
