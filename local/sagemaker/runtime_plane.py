"""InvokeEndpoint, from the caller's bytes to a variant's container and back."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import unquote

from local.aws_json import AwsError, Headers, Receive, Scope, Send, read_body, send_answer
from local.clock import Clock
from local.sagemaker import capture as captures
from local.sagemaker.capture import Capture
from local.sagemaker.containers import Containers, Exchange
from local.sagemaker.metrics import Invocation, Meter
from local.sagemaker.options import Options
from local.sagemaker.routes import Target
from local.sagemaker.targets import Targets
from local.sagemaker.wire import DEFAULT_TYPE, PREFIX, forwarded, header_map, model_error, refuse, returned
from local.settings import LocalSettings

_PATH = re.compile(r"/endpoints/([^/]+)/invocations")
_MOST_MIRRORS = 256
_OK = 200


def endpoint_of(path: str) -> str | None:
    """Give the endpoint that a path invokes, or None if it invokes none."""
    match = _PATH.fullmatch(path)
    return unquote(match.group(1)) if match is not None else None


def too_large(limit: int) -> AwsError:
    """Give the refusal of a body of more than `limit` bytes."""
    return AwsError("413", f"Request body exceeds the maximum of {limit} bytes", status=413)


class RuntimePlane:
    """Answers InvokeEndpoint, and sends shadows their copies."""

    def __init__(
        self,
        targets: Targets,
        containers: Containers,
        *,
        settings: LocalSettings,
        options: Options,
        capture: Capture,
        meter: Meter,
        chance: random.Random,
        clock: Clock,
    ) -> None:
        self._targets = targets
        self._containers = containers
        self._settings = settings
        self._options = options
        self._capture = capture
        self._meter = meter
        self._chance = chance
        self._clock = clock
        self._mirrors: set[asyncio.Task[None]] = set()

    async def serve(self, endpoint: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one InvokeEndpoint."""
        arrived = time.perf_counter()
        limit = self._options.max_payload_bytes
        body = await read_body(receive, limit=limit)
        if body is None:
            await refuse(send, too_large(limit))
            return
        sent = header_map(scope)
        try:
            target = self._targets.of(endpoint, sent)
        except AwsError as error:
            await refuse(send, error)
            return
        self._mirror(target, sent, body)
        exchange = await self._ask(target, sent, body)
        await self._answer(send, target, exchange)
        self._record(target, sent, body, exchange, arrived=arrived)

    async def _ask(self, target: Target, sent: Mapping[str, str], body: bytes) -> Exchange:
        return await self._containers.ask(target, forwarded(sent), body, timeout_s=self._options.invocation_timeout_s)

    async def _answer(self, send: Send, target: Target, exchange: Exchange) -> None:
        answer = exchange.answer
        if not exchange.good:
            await refuse(send, model_error(self._settings, target.endpoint, answer.status, exchange.said))
            return
        kind = answer.headers.get("content-type", DEFAULT_TYPE).encode("latin-1")
        headers: Headers = [(b"content-type", kind), *returned(answer.headers, target.variant)]
        await send_answer(send, status=_OK, headers=headers, body=answer.body)

    def _record(
        self, target: Target, sent: Mapping[str, str], body: bytes, exchange: Exchange, *, arrived: float
    ) -> None:
        invocation = Invocation(
            status=exchange.answer.status,
            model_s=exchange.model_s,
            total_s=time.perf_counter() - arrived,
            concurrent=exchange.concurrent,
        )
        self._meter.count(target, invocation)
        rule = target.capture
        if not exchange.good or rule is None or self._chance.random() * 100 >= rule.percent:
            return
        captured = captures.Exchange(
            content_type=sent.get("content-type", DEFAULT_TYPE),
            body=body,
            answer_type=exchange.answer.headers.get("content-type", DEFAULT_TYPE),
            answer=exchange.answer.body,
            inference_id=sent.get(f"{PREFIX}inference-id"),
            at=datetime.fromtimestamp(self._clock.now(), UTC),
        )
        self._capture.add(target, rule, captured)

    def _mirror(self, target: Target, sent: Mapping[str, str], body: bytes) -> None:
        """Send the shadow its copy, whose answer is captured and dropped; too many copies at once are left out."""
        shadow = target.shadow
        if shadow is None or self._chance.random() >= target.shadow_share or len(self._mirrors) >= _MOST_MIRRORS:
            return
        mirror = asyncio.create_task(self._mirrored(shadow, sent, body))
        self._mirrors.add(mirror)
        mirror.add_done_callback(self._mirrors.discard)

    async def _mirrored(self, shadow: Target, sent: Mapping[str, str], body: bytes) -> None:
        arrived = time.perf_counter()
        self._record(shadow, sent, body, await self._ask(shadow, sent, body), arrived=arrived)
