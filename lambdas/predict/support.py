"""`/v1/support/answer` over an OpenAI-compatible server, whole or as server-sent events; the ASGI shell only."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from lambdas.predict.service import Document
from serving.errors import DeadlineExceededError, EndpointError, ModelFailedError, OverloadedError, StreamHubError
from serving.prediction.prompts import messages
from serving.prediction.requests import SupportRequest
from serving.spec import ModelSpec

MAX_TOKENS = 512
RETRY_AFTER_S = 2.0
_PATH = "/v1/chat/completions"
_BUSY = frozenset({429, 503})
_PREFIX = "data:"
_END = "[DONE]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """One generator: its model, where it answers, and the pooled client that calls it."""

    spec: ModelSpec
    url: str
    client: httpx.AsyncClient

    @classmethod
    def connect(cls, spec: ModelSpec, url: str) -> Generator:
        """Make a client; it connects with its first call. Its time-out is the spec's deadline."""
        client = httpx.AsyncClient(timeout=httpx.Timeout(spec.budget.deadline_ms / 1000), trust_env=False)
        return cls(spec=spec, url=url, client=client)

    async def whole(self, request: SupportRequest) -> AsyncIterator[str]:
        """Give the whole answer as one piece.

        Raises:
            OverloadedError, DeadlineExceededError, EndpointError, ModelFailedError: as their names say.

        """
        try:
            response = await self.client.post(self.url + _PATH, json=self._body(request, stream=False))
        except httpx.HTTPError as error:
            raise _translated(error, self.url) from error
        _raise_for_status(response.status_code)
        yield _content(response.content, "message")

    async def deltas(self, request: SupportRequest) -> AsyncIterator[str]:
        """Give the answer piece by piece, as it is made.

        Raises:
            OverloadedError, DeadlineExceededError, EndpointError, ModelFailedError: as their names say.

        """
        body = self._body(request, stream=True)
        try:
            async with self.client.stream("POST", self.url + _PATH, json=body) as response:
                _raise_for_status(response.status_code)
                async for line in response.aiter_lines():
                    data = line[len(_PREFIX) :].strip() if line.startswith(_PREFIX) else ""
                    if data == _END:
                        return
                    if data and (piece := _content(data.encode(), "delta")):
                        yield piece
        except httpx.HTTPError as error:
            raise _translated(error, self.url) from error
        raise ModelFailedError(f"generator {self.url}: got a stream without its end; allowed data: [DONE]; see its log")

    def _body(self, request: SupportRequest, *, stream: bool) -> Document:
        return {
            "model": self.spec.name,
            "messages": messages(request),
            "max_tokens": MAX_TOKENS,
            "temperature": 0,
            "stream": stream,
        }


async def observed(pieces: AsyncIterator[str], ends: Callable[..., None]) -> AsyncIterator[str]:
    """Pass pieces on and say once how it ended: `ends(failed=…)`; a client that goes away is no failure of ours."""
    failed = False
    try:
        async for piece in pieces:
            yield piece
    except StreamHubError:
        failed = True
        raise
    finally:
        ends(failed=failed)


async def events(head: Document, pieces: AsyncIterator[str]) -> AsyncIterator[bytes]:
    """Give server-sent events: `start` with the common fields, `delta` a piece, then `end` or `error`."""
    yield _event("start", head)
    started_s = time.monotonic()
    try:
        async for piece in pieces:
            yield _event("delta", {"text": piece})
    except StreamHubError as error:
        yield _event("error", {"detail": str(error)})
        return
    yield _event("end", {"elapsed_ms": round((time.monotonic() - started_s) * 1000, 1)})


def _event(name: str, data: Document) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


def _content(data: bytes, key: str) -> str:
    try:
        choice: Any = orjson.loads(data)["choices"][0]
        text = choice[key].get("content")
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ModelFailedError(
            f"generator: got {data[:80]!r}; allowed a chat completion with choices; check STREAMHUB_SUPPORT_URL"
        ) from error
    return text if isinstance(text, str) else ""


def _raise_for_status(status: int) -> None:
    if status in _BUSY:
        raise OverloadedError("generator: its queue is full; come back", retry_after_s=RETRY_AFTER_S)
    if status != httpx.codes.OK:
        raise ModelFailedError(f"generator: got status {status}; allowed 200; see its log")


def _translated(error: httpx.HTTPError, url: str) -> StreamHubError:
    if isinstance(error, httpx.TimeoutException):
        return DeadlineExceededError(f"generator {url}: got no answer in time; allowed the deadline of its budget")
    return EndpointError(
        f"generator {url}: got {error}; allowed an OpenAI-compatible server that answers; check STREAMHUB_SUPPORT_URL"
    )
