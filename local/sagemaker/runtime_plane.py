"""The data plane: InvokeEndpoint, from the caller's bytes to a variant's model server and back."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import unquote

from local.aws_json import AwsError, Headers, Receive, Scope, Send, read_body, send_answer
from local.faults import Fault, Faults, Kind
from local.sagemaker.capture import Capture, Exchange
from local.sagemaker.metrics import Meter
from local.sagemaker.options import Options
from local.sagemaker.routes import Route, Target
from local.sagemaker.upstream import Answer
from local.sagemaker.wire import ModelError, header_map, refuse, validation
from local.settings import LocalSettings
from serving.errors import EndpointError

_PATH = re.compile(r"/endpoints/([^/]+)/invocations")
_DEFAULT_TYPE = "application/octet-stream"
_COMPONENT = "x-amzn-sagemaker-inference-component"
_CUSTOM = "x-amzn-sagemaker-custom-attributes"
# the container sees these and no other header of the caller
_FORWARDED = ("content-type", "accept", _CUSTOM)
_UNSERVED = {
    "x-amzn-sagemaker-target-model": "TARGET_MODEL_HEADER_NOT_SUPPORTED: the endpoint hosts one model a variant",
}
_MAX_MESSAGE = 4096
_MOST_MIRRORS = 256
_OK, _MULTIPLE = 200, 300
_FIRST_SERVER_ERROR = 500


def endpoint_of(path: str) -> str | None:
    """Give the endpoint that a path invokes, or None if it invokes none."""
    match = _PATH.fullmatch(path)
    return unquote(match.group(1)) if match is not None else None


class ComponentTargets(Protocol):
    """Finds what answers for an inference component."""

    def target(self, endpoint: str, name: str) -> Target | None:
        """Give its target, if it is on that endpoint and has a copy."""


class RuntimePlane:
    """Answers InvokeEndpoint over the routes that the fleets keep."""

    def __init__(
        self,
        routes: dict[str, Route],
        *,
        settings: LocalSettings,
        options: Options,
        capture: Capture,
        meter: Meter,
        chance: random.Random,
        components: ComponentTargets,
        faults: Faults,
    ) -> None:
        self._faults = faults
        self._routes = routes
        self._components = components
        self._mirrors: set[asyncio.Task[None]] = set()
        self._settings = settings
        self._options = options
        self._capture = capture
        self._meter = meter
        self._chance = chance
        self._in_flight: dict[tuple[str, str], int] = {}

    async def serve(self, endpoint: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one InvokeEndpoint."""
        limit = self._options.max_payload_bytes
        body = await read_body(receive, limit=limit)
        if body is None:
            await refuse(send, AwsError("413", f"Request body exceeds the maximum of {limit} bytes", status=413))
            return
        try:
            sent = header_map(scope)
            target = self._target(endpoint, sent)
            self._mirror(target, sent, body)
            answer = await self._invoke(target, sent, body)
        except AwsError as error:
            await refuse(send, error)
            return
        headers: Headers = [
            (b"content-type", answer.headers.get("content-type", _DEFAULT_TYPE).encode("latin-1")),
            (b"x-amzn-invoked-production-variant", target.variant.encode("latin-1")),
        ]
        if _CUSTOM in answer.headers:
            headers.append((_CUSTOM.encode(), answer.headers[_CUSTOM].encode("latin-1")))
        await send_answer(send, status=_OK, headers=headers, body=answer.body)

    def _target(self, endpoint: str, sent: Mapping[str, str]) -> Target:
        for name, message in _UNSERVED.items():
            if name in sent:
                raise validation(message)
        route = self._routes.get(endpoint)
        if route is None:
            raise validation(f"Endpoint {endpoint} of account {self._settings.account} not found.")
        if self._fault(endpoint, "throttle") is not None:
            # botocore knows no such error of this call: SageMaker sends the code without a text
            raise AwsError("ThrottlingException", "")
        if route.asynchronous is not None:
            raise validation(f"Endpoint {endpoint} is an asynchronous endpoint; call InvokeEndpointAsync.")
        if _COMPONENT in sent or route.hosts_components:
            return self._component(endpoint, sent.get(_COMPONENT))
        wanted = sent.get("x-amzn-sagemaker-target-variant")
        chance = self._chance.random()
        try:
            target = route.named(wanted, chance) if wanted is not None else route.choose(chance)
        except EndpointError as error:
            raise validation(f"Endpoint {endpoint}: {error}") from error
        if target is None:
            raise validation(f"Variant {wanted} not found for Request: endpoint {endpoint} has no such variant.")
        return target

    def _component(self, endpoint: str, name: str | None) -> Target:
        if name is None:
            raise validation(f"Endpoint {endpoint} hosts inference components; give InferenceComponentName.")
        target = self._components.target(endpoint, name)
        if target is None:
            raise validation(f"Inference Component {name} of endpoint {endpoint} not found, or it has no copy.")
        return target

    async def _invoke(self, target: Target, sent: Mapping[str, str], body: bytes) -> Answer:
        began = time.perf_counter()
        headers = {name: sent[name] for name in _FORWARDED if name in sent}
        headers.setdefault("content-type", _DEFAULT_TYPE)
        key = (target.endpoint, target.variant)
        concurrent = self._in_flight[key] = self._in_flight.get(key, 0) + 1
        asked = time.perf_counter()
        status = 0
        try:
            async with asyncio.timeout(self._options.invocation_timeout_s):
                answer = await self._answer(target, headers, body)
            status = answer.status
        except (EndpointError, TimeoutError) as error:
            raise self._model_error(target, 0, _no_answer(error, self._options.invocation_timeout_s)) from error
        finally:
            received = time.perf_counter()
            self._in_flight[key] -= 1
            self._meter.count(
                target,
                status=status,
                model_s=received - asked,
                total_s=time.perf_counter() - began,
                concurrent=concurrent,
            )
        if not _OK <= status < _MULTIPLE:
            raise self._model_error(target, status, answer.body.decode("utf-8", "replace"))
        self._keep(target, sent.get("x-amzn-sagemaker-inference-id"), headers["content-type"], body, answer)
        return answer

    def _mirror(self, target: Target, sent: Mapping[str, str], body: bytes) -> None:
        """Send the shadow its copy, whose answer is captured and dropped; too many copies at once are left out."""
        shadow = target.shadow
        if shadow is None or self._chance.random() >= target.shadow_share or len(self._mirrors) >= _MOST_MIRRORS:
            return
        mirror = asyncio.create_task(self._mirrored(shadow, sent, body))
        self._mirrors.add(mirror)
        mirror.add_done_callback(self._mirrors.discard)

    async def _mirrored(self, shadow: Target, sent: Mapping[str, str], body: bytes) -> None:
        with contextlib.suppress(AwsError):
            await self._invoke(shadow, sent, body)

    async def _answer(self, target: Target, headers: dict[str, str], body: bytes) -> Answer:
        slow = self._fault(target.endpoint, "slow")
        if slow is not None:
            await asyncio.sleep(slow.delay_ms / 1000)
        if self._fault(target.endpoint, "error") is not None:
            return Answer(status=500, headers={}, body=b"a fault was asked for")
        return await target.server.post("/invocations", headers, body)

    def _fault(self, endpoint: str, kind: Kind) -> Fault | None:
        fault = self._faults.of(endpoint, kind)
        return fault if fault is not None and self._chance.random() < fault.share else None

    def _keep(self, target: Target, inference_id: str | None, content_type: str, body: bytes, answer: Answer) -> None:
        rule = target.capture
        if rule is None or self._chance.random() * 100 >= rule.percent:
            return
        exchange = Exchange(
            content_type=content_type,
            body=body,
            answer_type=answer.headers.get("content-type", _DEFAULT_TYPE),
            answer=answer.body,
            inference_id=inference_id,
            at=datetime.now(UTC),
        )
        self._capture.add(target, rule, exchange)

    def _model_error(self, target: Target, status: int, said: str) -> ModelError:
        account, region = self._settings.account, self._settings.region
        group = f"/aws/sagemaker/Endpoints/{target.endpoint}"
        kind = "client" if 0 < status < _FIRST_SERVER_ERROR else "server"
        message = (
            f'Received {kind} error ({status}) from primary with message "{said[:_MAX_MESSAGE]}". See '
            f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#logEventViewer:group={group} "
            f"in account {account} for more information."
        )
        log_arn = f"arn:aws:logs:{region}:{account}:log-group:{group}"
        return ModelError(message, original_status=status, original=said[:_MAX_MESSAGE], log_arn=log_arn)


def _no_answer(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return (
            "Your invocation timed out while waiting for a response from container primary. "
            f"Review the latency metrics for each container: the limit is {timeout_s:g} s."
        )
    return str(error)
