"""Many clients on every route for a while: only answers and documented sheds, and every answer equals a lone one.

    .venv/bin/streamhub local up --json > build/up.json
    .venv/bin/python -m benchmarks.soak --up build/up.json --clients 100 --seconds 30

Speed is printed with the machine's facts and never judged: on a shared machine it says little.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from cli.demo.result import machine
from cli.demo.tally import RouteLatency
from cli.demo.traffic import Answer, Ask, send

TOLERANCE = 1e-5
"""Batched matrix products add in another order; more than float noise is a fault."""

NOISE = {"prediction_id"}
"""What differs from answer to answer by design."""


@dataclass(slots=True)
class RouteReport:
    """What one route answered: counts by status, differences to the lone answer, latencies of good answers in ms.

    An answer that says it is degraded (a fallback, say) is counted apart: it is no answer of the model.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    degraded: int = 0
    differing: int = 0
    sheds_without_retry_after: int = 0
    latencies_ms: list[float] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """Answers that differ from the lone one, and sheds that do not say when to come back."""
        return self.differing + self.sheds_without_retry_after

    @property
    def clean(self) -> bool:
        """Only good answers and sheds, and every good answer equal to the lone one of its version."""
        return set(self.statuses) <= {200, 503} and bool(self.latencies_ms) and not self.faults

    def document(self) -> dict[str, object]:
        """Give the route's part of the JSON document."""
        latency = RouteLatency.of(self.latencies_ms) if self.latencies_ms else None
        return {
            "clean": self.clean,
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "degraded": self.degraded,
            "differing": self.differing,
            "sheds_without_retry_after": self.sheds_without_retry_after,
            "p50_ms": latency.p50 if latency else None,
            "p90_ms": latency.p90 if latency else None,
            "p99_ms": latency.p99 if latency else None,
        }


def soak(base_url: str, route: str, body: Mapping[str, object], *, clients: int, seconds: float) -> RouteReport:
    """Ask one route with one body and compare every answer with that of a lone request to the same version."""
    alone = _lone_answers(base_url, route, body)
    report = RouteReport()

    def on_answer(answer: Answer) -> None:
        report.statuses[answer.status] += 1
        report.sheds_without_retry_after += answer.status == 503 and answer.retry_after is None  # noqa: PLR2004 - shed
        if answer.status != 200:  # noqa: PLR2004 - HTTP OK
            return
        report.latencies_ms.append(answer.latency_ms)
        if answer.document.get("degraded"):
            report.degraded += 1
            return
        lone = alone.setdefault(str(answer.document.get("model_version")), answer.document)
        report.differing += not same(lone, answer.document)

    send(base_url, _until(seconds, Ask(route=route, body=dict(body))), clients=clients, on_answer=on_answer)
    return report


def same(left: object, right: object) -> bool:
    """Say whether two answers are equal but for what names the single request, numbers within float noise."""
    if isinstance(left, dict) and isinstance(right, dict):
        keys = (left.keys() | right.keys()) - NOISE
        return all(key in left and key in right and same(left[key], right[key]) for key in keys)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, abs_tol=TOLERANCE)
    return left == right


def _lone_answers(base_url: str, route: str, body: Mapping[str, object]) -> dict[str, dict[str, object]]:
    answers = send(base_url, [Ask(route=route, body=dict(body))] * 3, clients=1)
    return {str(answer.document.get("model_version")): answer.document for answer in answers if answer.status == 200}  # noqa: PLR2004 - HTTP OK


def _until(seconds: float, ask: Ask) -> Iterator[Ask]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield ask


def main(arguments: list[str] | None = None) -> int:
    """Run over all samples of `streamhub local up --json` and print one JSON document; 1 when a route is not clean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--up", type=Path, required=True, help="the JSON of `streamhub local up --json`")
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args(arguments)
    up = orjson.loads(asked.up.read_bytes())
    routes = {}
    for sample in up["samples"].values():
        sys.stderr.write(f"{sample['route']}: {asked.clients} clients for {asked.seconds:g} s\n")
        report = soak(up["api_url"], sample["route"], sample["body"], clients=asked.clients, seconds=asked.seconds)
        routes[sample["route"]] = report.document()
    document = {"clients": asked.clients, "seconds": asked.seconds, "machine": machine(), "routes": routes}
    sys.stdout.write(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n")
    return 0 if all(route["clean"] for route in routes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
