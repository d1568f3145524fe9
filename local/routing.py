"""Which service a request is for: its signature's scope, its target, its path; one ASGI application for all."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Literal

from local.aws_json import header
from serving.errors import LocalStackError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]
Service = Literal["sagemaker", "application-autoscaling", "page", "other"]

PAGE_PREFIX = "/_streamhub"
_SCOPE = re.compile(r"Credential=[^/,\s]+/\d{8}/[^/]+/([^/]+)/aws4_request")
_TARGETS: Mapping[str, Service] = {
    "SageMaker.": "sagemaker",
    "AnyScaleFrontendService.": "application-autoscaling",
}
_SCOPES: Mapping[str, Service] = {
    "sagemaker": "sagemaker",
    "application-autoscaling": "application-autoscaling",
}
_INVOCATION = re.compile(r"^/endpoints/[^/]+/(invocations|async-invocations|invocations-response-stream)$")


def service_of(scope: Message) -> Service:
    """Say which service answers a request.

    The runtime of SageMaker signs with the scope `sagemaker` too, so the application behind it looks at the path.
    """
    path = str(scope["path"])
    if path == PAGE_PREFIX or path.startswith(f"{PAGE_PREFIX}/"):
        return "page"
    signed = _SCOPE.search(header(scope, b"authorization") or "")
    if signed is not None:
        return _SCOPES.get(signed.group(1), "other")
    target = header(scope, b"x-amz-target") or ""
    for prefix, service in _TARGETS.items():
        if target.startswith(prefix):
            return service
    return "sagemaker" if _INVOCATION.match(path) else "other"


class Gateway:
    """One ASGI application over all services; whoever serves it calls `open` before and `close` after.

    Not by ASGI's lifespan events: services write their last records through this very gateway, so they must end
    while it still answers.
    """

    def __init__(
        self, services: Mapping[Service, Asgi], *, tasks: Sequence[Callable[[], Awaitable[None]]] = ()
    ) -> None:
        self._services = dict(services)
        self._tasks = tasks
        self._running: list[asyncio.Task[None]] = []
        self._open = contextlib.AsyncExitStack()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        service = service_of(scope) if scope["type"] == "http" else "other"
        await self._services[service](scope, receive, send)

    async def open(self) -> None:
        """Start the services in order, then the background work.

        Raises:
            LocalStackError: a service cannot start.

        """
        for service in self._services.values():
            await self._open.enter_async_context(lifespan(service))
        self._running = [asyncio.create_task(_run_task(task)) for task in self._tasks]

    async def close(self) -> None:
        """End background work and services, the last started first."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._open.aclose()


async def _run_task(task: Callable[[], Awaitable[None]]) -> None:
    await task()


@contextlib.asynccontextmanager
async def lifespan(app: Asgi) -> AsyncIterator[None]:
    """Start an ASGI application and shut it down at the end; one that has no lifespan is left alone.

    Raises:
        LocalStackError: the application says that it cannot start.

    """
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()
    task = asyncio.create_task(_run(app, to_app, from_app))
    await to_app.put({"type": "lifespan.startup"})
    answer = await from_app.get()
    if answer["type"] == "lifespan.startup.failed":
        raise LocalStackError(f"a service cannot start: {answer.get('message', '')}")
    try:
        yield
    finally:
        if not task.done():
            await to_app.put({"type": "lifespan.shutdown"})
            await from_app.get()
        await asyncio.gather(task, return_exceptions=True)


async def _run(app: Asgi, to_app: asyncio.Queue[Message], from_app: asyncio.Queue[Message]) -> None:
    try:
        await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, to_app.get, from_app.put)
    finally:
        await from_app.put({"type": "lifespan.none"})  # it ended without an answer: no lifespan
