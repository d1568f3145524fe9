"""Closed-loop clients of the prediction API: each sends its next request after its last answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

import orjson
import urllib3

TIMEOUT_S = 30.0
LOST: Final = 0
"""The status of a request that no answer came to."""

_HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to send; `tag` comes back with its answer."""

    route: str
    body: Mapping[str, object]
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
    """Send all requests with `clients` concurrent clients and give the answers in the order they came.

    `on_answer` is called for one answer at a time. Threads over kept connections: on a laptop that runs everything,
    the client must not be what costs most. An interrupt lets each client end the request that it is at.
    """
    queue, answers, lock, ended = iter(asks), list[Answer](), threading.Lock(), threading.Event()
    with urllib3.PoolManager(maxsize=clients, block=True, retries=False, timeout=TIMEOUT_S) as pool:

        def one_client() -> None:
            while not ended.is_set() and (ask := _next(queue, lock)) is not None:
                answer = _ask(pool, base_url, ask)
                with lock:
                    answers.append(answer)
                    if on_answer is not None:
                        on_answer(answer)

        with ThreadPoolExecutor(max_workers=clients, thread_name_prefix="client") as threads:
            running = [threads.submit(one_client) for _ in range(clients)]
            try:
                wait(running, return_when=FIRST_EXCEPTION)
            finally:
                ended.set()
            for client in running:
                client.result()
    return answers


def _next(queue: Iterator[Ask], lock: threading.Lock) -> Ask | None:
    with lock:
        return next(queue, None)


def _ask(pool: urllib3.PoolManager, base_url: str, ask: Ask) -> Answer:
    body = orjson.dumps(ask.body)
    started = time.perf_counter()
    try:
        response = pool.request("POST", f"{base_url}{ask.route}", body=body, headers=_HEADERS)
    except urllib3.exceptions.HTTPError as error:
        latency_ms = (time.perf_counter() - started) * 1000
        return Answer(ask=ask, status=LOST, latency_ms=latency_ms, document={"error": str(error)})
    latency_ms = (time.perf_counter() - started) * 1000
    return Answer(
        ask=ask,
        status=response.status,
        latency_ms=latency_ms,
        document=orjson.loads(response.data) if response.data else {},
        retry_after=response.headers.get("Retry-After"),
    )
