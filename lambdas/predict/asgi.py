"""The ASGI shell: `python -m lambdas.predict.asgi --port P`; prints `{"port": N}` when it answers.

It listens on this machine alone unless `--host` says else, and asks nobody who he is: in front of a network stands what
decides who calls (docs/api.md).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lambdas.predict import problems
from lambdas.predict.problems import Reply, problem, reply_of
from lambdas.predict.routes import SUPPORT, Ask, Routes, max_body_bytes
from lambdas.predict.service import Opened, Target
from lambdas.predict.settings import read_settings
from lambdas.predict.support import Generator, events, observed
from lambdas.predict.wiring import build, generator_target
from serving.errors import ServerError, StreamHubError
from serving.prediction import requests

HOST = "127.0.0.1"
THREADS = 32
MAX_WAITING = 256
"""Requests taken at once, those that run or stream included; one more is shed with 503."""

KEEP_ALIVE_S = 120
"""Longer than a client's pool keeps an idle connection, so that the client closes it and no request meets a close."""

_CLIENT_GONE = 499
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]


class _Stream(StreamingResponse):
    """Server-sent events; `ended` is called once, however they end."""

    def __init__(self, pieces: AsyncIterator[bytes], *, ended: Callable[[], None]) -> None:
        super().__init__(pieces, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


class Shell:
    """Takes requests on the event loop and answers them in threads, as boto3 blocks."""

    def __init__(self, routes: Routes, *, support: tuple[Generator, Target] | None = None) -> None:
        self._routes = routes
        self._support = support
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="predict")
        self._taken = 0

    def app(self) -> Starlette:
        """Give the application."""
        return Starlette(routes=[Route("/{path:path}", self._endpoint, methods=_METHODS)], lifespan=self._lifespan)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._routes.service.recorder.start()
        yield
        self._threads.shutdown()
        await asyncio.to_thread(self._routes.service.recorder.close)
        if self._support is not None:
            await self._support[0].client.aclose()

    async def _endpoint(self, request: Request) -> Response:
        arrived_s = self._routes.service.monotonic()
        path = request.url.path
        refused = self._routes.refusal(request.method, path, size_bytes=_declared_size(request))
        if refused is not None:
            return _response(refused)
        try:
            body = await _body(request, limit=max_body_bytes(path))
        except ClientDisconnect:
            return Response(status_code=_CLIENT_GONE)  # nobody reads it
        ask = Ask(method=request.method, path=path, body=body, arrived_s=arrived_s)
        if self._taken >= MAX_WAITING:
            return _response(problem(problems.OVERLOADED, f"{MAX_WAITING} requests wait already; come back"))
        self._taken += 1
        response: Response | None = None
        try:
            response = await self._answer(ask)
            return response
        finally:
            if not isinstance(response, _Stream):
                self._end()

    async def _answer(self, ask: Ask) -> Response:
        if ask.path == SUPPORT and self._support is not None:
            return await self._answer_support(ask, *self._support)
        loop = asyncio.get_running_loop()
        return _response(await loop.run_in_executor(self._threads, self._routes.handle, ask))

    def _end(self) -> None:
        self._taken -= 1

    async def _answer_support(self, ask: Ask, generator: Generator, target: Target) -> Response:
        service = self._routes.service
        try:
            request = requests.support_request(ask.body)
            opened = await asyncio.to_thread(service.open, target, request.session_id, arrived_s=ask.arrived_s)
            head = opened.answered().document()
            ends = partial(self._record, opened, started_s=service.monotonic())
            if request.stream:
                pieces = observed(generator.deltas(request), ends)
                return _Stream(events(head, pieces), ended=self._end)
            text = "".join([piece async for piece in observed(generator.whole(request), ends)])
        except StreamHubError as error:
            return _response(reply_of(error))
        return _response(Reply(status=200, body=orjson.dumps({**head, "answer": text})))

    def _record(self, opened: Opened, *, failed: bool, started_s: float) -> None:
        service = self._routes.service
        service.record(opened, latency_ms=(service.monotonic() - started_s) * 1000, failed=failed)


def _declared_size(request: Request) -> int:
    text = request.headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdecimal() else 0


async def _body(request: Request, *, limit: int) -> bytes:
    """Read a body, but no further than one byte past the limit: the route refuses it then."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > limit:
            break
    return b"".join(parts)


def _response(reply: Reply) -> Response:
    return Response(reply.body, status_code=reply.status, media_type=reply.content_type, headers=dict(reply.headers))


def make_app() -> Starlette:
    """Give the application as the environment wires it."""
    settings = read_settings(os.environ)
    routes = build(settings)
    support = None
    if settings.support_url:
        target = generator_target(settings)
        support = (Generator.connect(target.spec, settings.support_url), target)
    return Shell(routes, support=support).app()


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ServerError(f"port {port}: got {error.strerror}; allowed a free port; choose another, or 0") from error
    return listener


class _Server(uvicorn.Server):
    """Says the port once it answers."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            sys.stdout.write(f'{{"port": {sockets[0].getsockname()[1]}}}\n')
            sys.stdout.flush()


def main() -> int:
    """Serve until SIGTERM or SIGINT; give the exit code."""
    parser = argparse.ArgumentParser(prog="lambdas.predict.asgi")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--host", default=HOST, help="the address to listen at")
    arguments = parser.parse_args()
    try:
        app = make_app()
        listener = _listen(arguments.host, arguments.port)
    except StreamHubError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn drains and then raises the signal again, which would end the process as killed
        signal.signal(number, signal.SIG_IGN)
    server = _Server(
        uvicorn.Config(app, log_level="warning", access_log=False, http="httptools", timeout_keep_alive=KEEP_ALIVE_S)
    )
    server.run(sockets=[listener])
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main())
