"""InvokeEndpointWithResponseStream: a container's answer in parts as it makes them, each an event of a stream.

Sources: SageMaker API reference, ResponseStream, ModelStreamError (StreamBroken, ModelInvocationTimeExceeded) and
InternalStreamFailure. What goes wrong before the first byte is answered as InvokeEndpoint does. Not captured.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Coroutine, Mapping
from typing import Any
from urllib.parse import unquote

from local.aws_json import AwsError, Headers, Receive, Scope, Send, read_body
from local.sagemaker.containers import Containers, Exchange, no_answer
from local.sagemaker.event_stream import CONTENT_TYPE, payload_part, stream_error
from local.sagemaker.metrics import Invocation, Meter, Streamed
from local.sagemaker.options import Options
from local.sagemaker.routes import Target
from local.sagemaker.runtime_plane import too_large
from local.sagemaker.streamed import Stream
from local.sagemaker.targets import Targets
from local.sagemaker.wire import DEFAULT_TYPE, PREFIX, forwarded, header_map, model_error, refuse, returned
from local.settings import LocalSettings
from serving.errors import EndpointError

_PATH = re.compile(r"/endpoints/([^/]+)/invocations-response-stream")
_OK = 200


def stream_endpoint_of(path: str) -> str | None:
    """Give the endpoint that a path invokes for a stream, or None."""
    match = _PATH.fullmatch(path)
    return unquote(match.group(1)) if match is not None else None


class StreamPlane:
    """Answers InvokeEndpointWithResponseStream."""

    def __init__(
        self, targets: Targets, containers: Containers, *, settings: LocalSettings, options: Options, meter: Meter
    ) -> None:
        self._targets = targets
        self._containers = containers
        self._settings = settings
        self._options = options
        self._meter = meter

    async def serve(self, endpoint: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one InvokeEndpointWithResponseStream."""
        arrived = time.perf_counter()
        limit = self._options.max_payload_bytes
        body = await read_body(receive, limit=limit)
        sent = header_map(scope)
        try:
            if body is None:
                raise too_large(limit)
            target = self._targets.of(endpoint, sent)
        except AwsError as error:
            await refuse(send, error)
            return
        relay = _Relay(send, target, fails=self._targets.meets(endpoint, "stream") is not None)
        with self._containers.counted(target) as exchange:
            await _unless_left(receive, self._relay(relay, target, sent, body, exchange))
        await relay.end()
        if not relay.began:
            await refuse(send, model_error(self._settings, endpoint, exchange.answer.status, exchange.said))
        self._count(target, exchange, relay, arrived=arrived)

    async def _relay(
        self, relay: _Relay, target: Target, sent: Mapping[str, str], body: bytes, exchange: Exchange
    ) -> None:
        """Pass the answer on; one that is no 2xx, or none, is left in the exchange for the caller to refuse."""
        if (failed := self._containers.failed(target)) is not None:
            exchange.answer = failed
            return
        headers = forwarded(sent)
        if f"{PREFIX}accept" in sent:
            headers["accept"] = sent[f"{PREFIX}accept"]
        limit_s = self._options.stream_timeout_s
        try:
            async with asyncio.timeout(limit_s), self._containers.stream(target, headers, body) as stream:
                exchange.answer.status = stream.status
                if exchange.good:
                    await relay.run(stream)
                else:
                    exchange.answer.body = await stream.whole()
        except TimeoutError as error:
            exchange.why = no_answer(error, limit_s)
            await relay.break_off("ModelInvocationTimeExceeded", exchange.why)
        except EndpointError as error:
            exchange.why = str(error)
            await relay.break_off("StreamBroken", exchange.why)

    def _count(self, target: Target, exchange: Exchange, relay: _Relay, *, arrived: float) -> None:
        model_began = arrived if relay.first_at is None else relay.model_began
        first_at = time.perf_counter() if relay.first_at is None else relay.first_at
        streamed = Streamed(first_s=first_at - arrived, first_model_s=first_at - model_began, broke=relay.broke)
        invocation = Invocation(
            status=exchange.answer.status,
            model_s=exchange.model_s,
            total_s=time.perf_counter() - arrived,
            concurrent=exchange.concurrent,
            streamed=streamed if relay.began else None,
        )
        self._meter.count(target, invocation)


class _Relay:
    """One stream on its way to the caller."""

    def __init__(self, send: Send, target: Target, *, fails: bool) -> None:
        self.began = False
        self.broke = False
        self.model_began = time.perf_counter()
        self.first_at: float | None = None
        self._send = send
        self._target = target
        self._fails = fails

    async def run(self, stream: Stream) -> None:
        """Send the head, then each part as one event."""
        self.began = True
        kind = stream.headers.get("content-type", DEFAULT_TYPE).encode("latin-1")
        headers: Headers = [
            (b"content-type", CONTENT_TYPE),
            (f"{PREFIX}content-type".encode(), kind),
            *returned(stream.headers, self._target.variant),
        ]
        await self._send({"type": "http.response.start", "status": _OK, "headers": headers})
        async for part in stream.parts():
            await self._event(payload_part(part))
            self.first_at = self.first_at or time.perf_counter()
            if self._fails:
                self.broke = True
                await self._event(stream_error("InternalStreamFailure", {"Message": "a fault was asked for"}))
                return

    async def break_off(self, code: str, message: str) -> None:
        """Tell the caller why the stream ends here, if it has begun."""
        self.broke = self.began
        if self.began:
            await self._event(stream_error("ModelStreamError", {"Message": message, "ErrorCode": code}))

    async def end(self) -> None:
        """End the answer, if it has begun."""
        if self.began:
            await self._send({"type": "http.response.body", "body": b""})

    async def _event(self, frame: bytes) -> None:
        await self._send({"type": "http.response.body", "body": frame, "more_body": True})


async def _unless_left(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work, and give it up when the caller leaves."""
    working, leaving = asyncio.create_task(work), asyncio.ensure_future(receive())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        leaving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
