"""Bursts over real connections: what came back is counted by who said it, and one burst goes at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from local.listener import free_port
from local.page import traffic
from local.page.endpoints import known_endpoints
from local.page.targets import Targets
from local.page.traffic import Burst, Note, Sender, Target, varied
from serving.errors import LocalStackError
from tests.fakes.page import Server
from tests.fakes.prediction import spec_of, stage_of


@dataclass
class Answering:
    """An API and an endpoint in one: each path answers in its own way, and bodies are kept."""

    bodies: list[bytes] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    reached: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        self.bodies.append((await receive())["body"])
        number = len(self.bodies)
        headers, status, answer = [], 200, b"{}"
        match scope["path"]:
            case "/_streamhub/route":
                answer = orjson.dumps({"variant": "ab"[number % 2], "degraded": ["features"] if number % 2 else []})
                status = 503 if number % 4 == 0 else 200
                answer = orjson.dumps({"title": "overloaded", "detail": "come back"}) if status == 503 else answer
            case "/_streamhub/endpoint":
                headers, answer = [(b"x-amzn-invoked-production-variant", b"b")], b"not JSON"
            case "/_streamhub/held":
                self.reached.set()
                await asyncio.to_thread(self.held.wait, 10)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


@pytest.fixture(name="answering")
def answering_fixture() -> Iterator[tuple[Answering, str]]:
    app = Answering()
    server = Server(app)
    yield app, server.url
    app.held.set()
    server.go_away()


def sender(url: str, *, monotonic: Any = None) -> Sender:
    target = Target(id="t", label="the target", url=url, body=varied({"user_id": "user_000900"}, "user_id"))
    return Sender(lambda: [target], **({"monotonic": monotonic} if monotonic else {}))


def test_a_route_says_its_variant_in_the_answer_and_why_it_refuses(answering: tuple[Answering, str]) -> None:
    app, url = answering
    result = sender(f"{url}/route").send(Burst(target="t", requests=8, clients=1))
    assert [(row.status, row.variant, row.count) for row in result.rows] == [(200, "a", 2), (200, "b", 4), (503, "", 2)]
    assert set(result.notes) == {Note(text="503: come back", count=2), Note(text="degraded: features", count=4)}
    assert (result.target, result.sent, result.unsent) == ("the target", 8, 0)
    assert len(set(app.bodies)) == 8


def test_an_endpoint_says_its_variant_in_a_header_whatever_the_body(answering: tuple[Answering, str]) -> None:
    _, url = answering
    [row] = sender(f"{url}/endpoint").send(Burst(target="t", requests=6, clients=3)).rows
    assert (row.status, row.variant, row.count) == (200, "b", 6)


def test_two_bursts_ask_for_different_units(answering: tuple[Answering, str]) -> None:
    app, url = answering
    bursts = sender(f"{url}/endpoint")
    for _ in range(2):
        bursts.send(Burst(target="t", requests=5, clients=2))
    assert len(set(app.bodies)) == 10


def test_nobody_there_is_an_answer_without_a_status() -> None:
    result = sender(f"http://127.0.0.1:{free_port()}").send(Burst(target="t", requests=3, clients=2))
    assert [(row.status, row.count) for row in result.rows] == [(0, 3)]
    assert result.notes[0].text.startswith("no answer: ")


def test_a_second_burst_is_refused_while_the_first_is_under_way(answering: tuple[Answering, str]) -> None:
    app, url = answering
    bursts = sender(f"{url}/held")
    burst = Burst(target="t", requests=1, clients=1)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(bursts.send, burst)
        assert app.reached.wait(10)
        with pytest.raises(LocalStackError, match="another one is under way"):
            bursts.send(burst)
        app.held.set()
        assert first.result(10).sent == 1
    assert bursts.send(burst).sent == 1


def test_a_burst_ends_when_its_time_is_over_and_says_what_was_not_sent(answering: tuple[Answering, str]) -> None:
    _, url = answering
    times = iter([0.0, 1.0, 2.0, *[traffic.BURST_S + 1] * 9])
    result = sender(f"{url}/endpoint", monotonic=lambda: next(times)).send(Burst(target="t", requests=50, clients=1))
    assert (result.sent, result.unsent) == (2, 48)


def test_routes_are_targets_only_once_the_api_answers(root: Path) -> None:
    stage = stage_of("dev")
    models = {name: spec_of(name) for name in stage.models}
    api = ""
    targets = Targets(
        models=models,
        known=known_endpoints(stage, models),
        folder=root / "models",
        aws_url="http://127.0.0.1:1",
        api_url=lambda: api,
    )
    endpoints = [f"endpoint:streamhub-dev-{models[name].slug}" for name in sorted(models)]
    assert [target.id for target in targets()] == endpoints
    api = "http://127.0.0.1:2"
    found = targets()
    assert [target.id for target in found] == [*(f"route:{models[n].api.route}" for n in sorted(models)), *endpoints]
    ranker = next(target for target in found if target.id == "route:/v1/rank")
    assert ranker.url == "http://127.0.0.1:2/v1/rank"
    assert set(orjson.loads(ranker.body(0))) == {"user_id", "candidates", "context"}
