"""One request to a container, within its time, and what came of it: what all ways to invoke an endpoint share."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from local.sagemaker.routes import Target
from local.sagemaker.servers import ModelServer
from local.sagemaker.streamed import Stream
from local.sagemaker.targets import Targets
from local.sagemaker.upstream import Answer
from local.sagemaker.wire import SESSION
from serving.errors import EndpointError

_PATH = "/invocations"
_OK, _MULTIPLE = 200, 300
_BROKEN = b"a fault was asked for"


@dataclass(slots=True)
class Exchange:
    """A container's answer, and `why` there is none; seconds it took, and how many it had at once."""

    answer: Answer = field(default_factory=Answer)
    why: str = ""
    model_s: float = 0.0
    concurrent: int = 0

    @property
    def good(self) -> bool:
        """Whether the container answered 2xx."""
        return _OK <= self.answer.status < _MULTIPLE

    @property
    def said(self) -> str:
        """What the container said instead of a good answer."""
        return self.why or self.answer.body.decode("utf-8", "replace")


class Containers:
    """Sends requests to the containers behind targets, through the faults that are asked for."""

    def __init__(self, targets: Targets, *, chance: random.Random) -> None:
        self._targets = targets
        self._chance = chance
        self.in_flight: dict[tuple[str, str], int] = {}

    async def ask(self, target: Target, headers: dict[str, str], body: bytes, *, timeout_s: float) -> Exchange:
        """Give the container's answer; one that fails or comes too late is told, not raised."""
        with self.counted(target) as exchange:
            try:
                async with asyncio.timeout(timeout_s):
                    exchange.answer = await self._post(target, headers, body)
            except (EndpointError, TimeoutError) as error:
                exchange.why = no_answer(error, timeout_s)
        return exchange

    @contextlib.asynccontextmanager
    async def stream(self, target: Target, headers: dict[str, str], body: bytes) -> AsyncIterator[Stream]:
        """Give the container's answer from its headers on.

        Raises:
            EndpointError: it gave none.

        """
        await self._delay(target)
        server = self._server(target, headers)
        async with server.stream(_PATH, headers, body) as stream:
            target.workers.learn(stream.headers, server)
            yield stream

    def failed(self, target: Target) -> Answer | None:
        """Give what the container answers where it is asked to fail."""
        asked = self._targets.meets(target.endpoint, "error") is not None
        return Answer(status=500, headers={}, body=_BROKEN) if asked else None

    @contextlib.contextmanager
    def counted(self, target: Target) -> Iterator[Exchange]:
        """Give an exchange to fill in while it is under way; its time and its neighbours are counted."""
        key = (target.endpoint, target.component or target.variant)
        exchange = Exchange()
        exchange.concurrent = self.in_flight[key] = self.in_flight.get(key, 0) + 1
        began = time.perf_counter()
        try:
            yield exchange
        finally:
            exchange.model_s = time.perf_counter() - began
            self.in_flight[key] -= 1
            if not self.in_flight[key]:
                del self.in_flight[key]

    async def _post(self, target: Target, headers: dict[str, str], body: bytes) -> Answer:
        await self._delay(target)
        if (failed := self.failed(target)) is not None:
            return failed
        server = self._server(target, headers)
        answer = await server.post(_PATH, headers, body)
        target.workers.learn(answer.headers, server)
        return answer

    def _server(self, target: Target, headers: dict[str, str]) -> ModelServer:
        session, chance = headers.get(SESSION), self._chance.random()
        return target.workers.pick(instances=target.instances, session=session, chance=chance)

    async def _delay(self, target: Target) -> None:
        slow = self._targets.meets(target.endpoint, "slow")
        if slow is not None:
            await asyncio.sleep(slow.delay_ms / 1000)


def no_answer(error: Exception, timeout_s: float) -> str:
    """Say why a container gave no answer."""
    if isinstance(error, TimeoutError):
        return (
            "Your invocation timed out while waiting for a response from container primary. "
            f"Review the latency metrics for each container: the limit is {timeout_s:g} s."
        )
    return str(error)
