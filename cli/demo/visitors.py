"""The demo's side of the prediction API: visits with the clicks they lead to, samples of other routes, and counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from itertools import cycle, islice
from typing import Any

from cli.demo.audience import Audience
from cli.demo.tally import RouteLatency, Tally
from cli.demo.traffic import Answer, Ask, send
from serving.errors import LocalStackError
from serving.prediction import ids

CLIENTS = 12
_PATIENCE_S = 30.0
_PROBE_S = 0.1

Stage = tuple[str, int]
"""A release's id and its stage: what an answer was evidence of."""

Advance = Callable[[int, int], None]
"""Told the requests that are done and those there are."""


class Visitors:
    """Sends requests of one audience to one API; every answer is counted."""

    def __init__(self, api_url: str, audience: Audience, *, advance: Advance) -> None:
        self._api_url = api_url
        self._audience = audience
        self._advance = advance
        self._latencies_ms: dict[str, list[float]] = {}
        self.counted: Counter[Stage] = Counter()
        self.total = Tally()
        self.outcomes = Tally()

    @property
    def routes(self) -> dict[str, RouteLatency]:
        """Latency by route of what was answered so far."""
        return {route: RouteLatency.of(values) for route, values in sorted(self._latencies_ms.items())}

    def visit(self, count: int, *, clicks: bool = False, clients: int = CLIENTS) -> Tally:
        """Send visits, and with `clicks` those that they lead to; give what became of the visits."""
        clicked: list[Ask] = []
        done = Counter[str]()

        def note(answer: Answer) -> None:
            done["visits"] += 1
            self._advance(done["visits"], count)
            if answer.status == HTTPStatus.OK:
                self.counted[stage_of(answer)] += 1
                clicked.extend(self._audience.outcomes(answer) if clicks else ())

        tally = self._send(self._audience.asks(count), note, clients=clients)
        answers = send(self._api_url, clicked, clients=clients)
        self.outcomes += Tally.of(answers, success=HTTPStatus.ACCEPTED)
        return tally

    def sample(self, samples: Mapping[str, Mapping[str, Any]], *, rounds: int) -> Tally:
        """Send each sample `rounds` times, one after the other."""
        asks = [Ask(route=sample["route"], body=sample["body"]) for sample in samples.values()]
        return self._send(islice(cycle(asks), rounds * len(asks)))

    def wait_for(self, wanted: Stage) -> None:
        """Send single visits until the API answers by that stage: it reads the release record every few seconds.

        Raises:
            LocalStackError: it does not.

        """
        end, before = time.monotonic() + _PATIENCE_S, self.counted[wanted]
        while self.counted[wanted] == before:
            if time.monotonic() > end:
                raise LocalStackError(f"waited {_PATIENCE_S:g} s until the API follows the release record")
            time.sleep(_PROBE_S)
            self.visit(1, clients=1)

    def wait_for_whole(self) -> float:
        """Send single visits until one is answered without a fallback; give the seconds that took, at most 30."""
        started = time.monotonic()
        while self.visit(1, clients=1).degraded and time.monotonic() - started < _PATIENCE_S:
            time.sleep(_PROBE_S)
        return time.monotonic() - started

    def _send(
        self, asks: Iterable[Ask], on_answer: Callable[[Answer], None] | None = None, *, clients: int = CLIENTS
    ) -> Tally:
        answers = send(self._api_url, asks, clients=clients, on_answer=on_answer)
        for answer in answers:
            if answer.status == HTTPStatus.OK:
                self._latencies_ms.setdefault(answer.ask.route, []).append(answer.latency_ms)
        tally = Tally.of(answers)
        self.total += tally
        return tally


def stage_of(answer: Answer) -> Stage:
    """Give the release and stage that an answer's prediction id names."""
    assignment = ids.parse(str(answer.document["prediction_id"])).assignment
    return assignment.release_id, assignment.stage_index
