"""Requests handed on to another server on this machine, and its answers as they come."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import httpx

from serving.runtime.exchange import Exchange, Head
from serving.runtime.inference import Handler
from serving.runtime.routes import ModelApp

PATHS = ("/invocations", "/metrics", "/v1/", "/tokenize", "/detokenize", "/version")
"""What vLLM's server answers itself (vllm, entrypoints/openai/api_server.py and entrypoints/sagemaker/routes.py)."""

_OWN_HEADERS = frozenset({b"connection", b"content-length", b"expect", b"host", b"transfer-encoding"})
_KNOWN = frozenset(HTTPStatus)
_GONE = (httpx.RemoteProtocolError, httpx.ReadError)


class Upstream(ModelApp):
    """The routes of a server whose model is in a child; the child's own paths go to it, others are answered here."""

    client: httpx.AsyncClient
    healthy = False
    """Whether the child says that it answers."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - those of a ModelApp
        super().__init__(*args, **options)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> bool:
        """Whether a request sent now would be answered."""
        return self.healthy and super().ready

    @property
    def idle(self) -> bool:
        """Whether every request was answered and every connection is closed."""
        return not self._tasks and super().idle

    def route(self, head: Head) -> Handler:
        """Give what answers the requests with a head, or hands them on."""
        theirs = head.path.startswith(tuple(path.encode() for path in PATHS))
        return self._hand_on if theirs else super().route(head)

    def _hand_on(self, exchange: Exchange) -> None:
        if not self.healthy:
            exchange.fail(503, "model: not ready; its server is starting or does not answer", b"retry-after: 1\r\n")
        else:
            task = asyncio.ensure_future(self._forward(exchange))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            exchange.job = _Forwarded(task)

    async def _forward(self, exchange: Exchange) -> None:
        head = exchange.head
        headers = [(name, value) for name, value in head.headers.items() if name not in _OWN_HEADERS]
        request = self.client.build_request(
            head.method.decode("latin-1"), head.path.decode("latin-1"), headers=headers, content=exchange.body
        )
        try:
            answer = await self.client.send(request, stream=True)
        except httpx.HTTPError as error:
            exchange.fail(502, f"model: got no answer from its server ({type(error).__name__}); try again")
            return
        try:
            await _back(answer, exchange)
        finally:
            await answer.aclose()


class _Forwarded:
    """A request on its way; cancelling it closes the connection to the child, which stops generating then."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def cancel(self) -> None:
        self._task.cancel()


async def _back(answer: httpx.Response, exchange: Exchange) -> None:
    """Send the answer on: whole if its size is known, else piece by piece, no faster than the client reads."""
    status = answer.status_code if answer.status_code in _KNOWN else 502
    content_type = answer.headers.get("content-type", "application/json").encode("latin-1")
    extra = b"".join(
        b"%s: %s\r\n" % (name.lower(), value)
        for name, value in answer.headers.raw
        if name.lower().startswith(b"x-") or name.lower() in {b"retry-after", b"content-encoding"}
    )
    try:
        if "content-length" in answer.headers:
            body = b"".join([piece async for piece in answer.aiter_raw()])
            exchange.answer(status, body, content_type, extra)
            return
        stream = exchange.stream(status, content_type, extra)
    except _GONE as error:
        exchange.fail(502, f"model: got half an answer from its server ({type(error).__name__}); try again")
        return
    try:
        async for piece in answer.aiter_raw():
            stream.write(piece)
            await stream.drained()
    except (*_GONE, ConnectionResetError):
        stream.abort()
    else:
        stream.end()
