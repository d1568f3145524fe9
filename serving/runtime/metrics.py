"""What the server counted: plain numbers written by the event loop, Prometheus text only when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from time import time

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

    def add(self, value: int, times: int = 1) -> None:
        """Count one value of 0 or more, or the same one several times."""
        self.total += value * times
        at = (value - 1).bit_length() if value > 0 else 0
        self.counts[min(at, len(self.counts) - 1)] += times

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
    """All counters of one model; durations of steps are sums over requests, as in Triton's statistics."""

    __slots__ = (
        "batch_rows",
        "batches",
        "compute_us",
        "computed_s",
        "decoded_s",
        "encoded_s",
        "executions",
        "failed_s",
        "last_epoch_s",
        "outcomes",
        "queue_us",
        "queued_s",
        "request_us",
        "rows",
    )

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.rows = 0
        self.executions = 0
        self.decoded_s = 0.0
        self.queued_s = 0.0
        self.computed_s = 0.0
        self.encoded_s = 0.0
        self.failed_s = 0.0
        self.last_epoch_s = 0.0
        self.batches: dict[int, list[float]] = {}
        """By rows: how many executions, and their seconds."""
        self.batch_rows = Histogram(_ROW_BUCKETS)
        self.queue_us = Histogram(_BUCKETS)
        self.compute_us = Histogram(_BUCKETS)
        self.request_us = Histogram(_BUCKETS)

    def ran(self, rows: int, *, seconds: float, waited_s: float, requests: int = 1, queued_s: float = 0.0) -> None:
        """Count one run; `waited_s` is how long the first of its requests was queued, `queued_s` all together."""
        self.executions += 1
        self.last_epoch_s = time()
        self.rows += rows
        self.queued_s += queued_s
        self.computed_s += seconds * requests
        size = self.batches.get(rows)
        if size is None:
            size = self.batches[rows] = [0, 0.0]
        size[0] += 1
        size[1] += seconds
        self.batch_rows.add(rows)
        self.compute_us.add(int(seconds * 1e6))
        self.queue_us.add(int(waited_s * 1e6))

    def answered(self, *, seconds: float, encoded_s: float, requests: int = 1) -> None:
        """Count answers: how long each took since its request was here, and how long all took to write."""
        self.outcomes["ok"] += requests
        self.encoded_s += encoded_s
        self.request_us.add(int(seconds * 1e6), requests)

    def unanswered(self, outcome: str, *, seconds: float) -> None:
        """Count one request that got no answer."""
        self.outcomes[outcome] += 1
        self.failed_s += seconds


@dataclass(frozen=True, slots=True)
class Series:
    """One model's counters, its labels and what can be read off it now."""

    model: str
    version: str
    metrics: Metrics
    gauges: dict[str, float] = field(default_factory=dict)

    @property
    def labels(self) -> str:
        """Labels as Prometheus text writes them."""
        return f'model="{_escaped(self.model)}",version="{_escaped(self.version)}"'


def exposition(series: Sequence[Series], *, gauges: dict[str, float]) -> str:
    """Render all models of a server as Prometheus text, version 0.0.4: each metric once, then its series."""
    lines: list[str] = []
    for name, value in gauges.items():
        lines += [f"# TYPE streamhub_{name} gauge", f"streamhub_{name} {value:.9g}"]
    if series:
        lines += _counters(series)
        for name in series[0].gauges:
            lines.append(f"# TYPE streamhub_{name} gauge")
            lines += [f"streamhub_{name}{{{one.labels}}} {one.gauges[name]:.9g}" for one in series]
        lines += _histograms(series)
    return "\n".join(lines) + "\n"


def _counters(series: Sequence[Series]) -> Iterator[str]:
    yield "# TYPE streamhub_requests_total counter"
    for one in series:
        for outcome, count in one.metrics.outcomes.items():
            yield f'streamhub_requests_total{{{one.labels},outcome="{outcome}"}} {count}'
    for name, attribute in (
        ("rows_total", "rows"),
        ("executions_total", "executions"),
        ("decoded_seconds_total", "decoded_s"),
        ("queued_seconds_total", "queued_s"),
        ("computed_seconds_total", "computed_s"),
        ("encoded_seconds_total", "encoded_s"),
    ):
        yield f"# TYPE streamhub_{name} counter"
        for one in series:
            yield f"streamhub_{name}{{{one.labels}}} {getattr(one.metrics, attribute):.12g}"


def _histograms(series: Sequence[Series]) -> Iterator[str]:
    for name, attribute, scale in (
        ("batch_rows", "batch_rows", 1.0),
        ("queue_seconds", "queue_us", 1e-6),
        ("compute_seconds", "compute_us", 1e-6),
        ("request_seconds", "request_us", 1e-6),
    ):
        yield f"# TYPE streamhub_{name} histogram"
        for one in series:
            yield from getattr(one.metrics, attribute).lines(f"streamhub_{name}", one.labels, scale=scale)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
