"""Closed-loop clients of the prediction API: each sends its next request after its last answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import httpx
import orjson

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to send; `tag` comes back with its answer."""

    route: str
    body: dict[str, object]
    tag: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer: HTTP status, client-side latency in ms, the JSON document, and Retry-After where it was shed."""

    ask: Ask
    status: int
    latency_ms: float
    document: dict[str, object]
    retry_after: str | None = None


def send(
    base_url: str, asks: Iterable[Ask], *, clients: int, on_answer: Callable[[Answer], None] | None = None
) -> list[Answer]:
    """Send all requests with `clients` concurrent clients and give the answers in the order they came."""
    return asyncio.run(_send(base_url, iter(asks), clients, on_answer))


async def _send(
    base_url: str, asks: Iterator[Ask], clients: int, on_answer: Callable[[Answer], None] | None
) -> list[Answer]:
    answers: list[Answer] = []
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=base_url, limits=limits, timeout=TIMEOUT_S, trust_env=False) as client:

        async def one_client() -> None:
            for ask in asks:
                answer = await _ask(client, ask)
                answers.append(answer)
                if on_answer is not None:
                    on_answer(answer)

        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(one_client())
    return answers


async def _ask(client: httpx.AsyncClient, ask: Ask) -> Answer:
    started = time.perf_counter()
    response = await client.post(
        ask.route, content=orjson.dumps(ask.body), headers={"Content-Type": "application/json"}
    )
    latency_ms = (time.perf_counter() - started) * 1000
    document = orjson.loads(response.content) if response.content else {}
    return Answer(
        ask=ask,
        status=response.status_code,
        latency_ms=latency_ms,
        document=document,
        retry_after=response.headers.get("Retry-After"),
    )
