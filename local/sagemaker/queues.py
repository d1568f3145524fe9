"""Asynchronous endpoints: requests wait in a queue, answers go to S3, notices to SNS.

Sources: SageMaker API reference, InvokeEndpointAsync and AsyncInferenceConfig; guide, *Asynchronous inference* (check
predictions, monitor): an endpoint without instances keeps what waits and says so in HasBacklogWithoutCapacity.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import orjson
from botocore.exceptions import BotoCoreError, ClientError

from local.aws_json import Json
from local.clock import Clock
from local.sagemaker.routes import Route
from serving.errors import EndpointError

_DEFAULT_CONCURRENT = 4
"""Where MaxConcurrentInvocationsPerInstance is not given SageMaker chooses; this is our choice."""
_POLL_S = 0.05
_OK, _MULTIPLE = 200, 300
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One accepted request; `body` is None when it lies at `input_uri`."""

    endpoint: str
    inference_id: str
    headers: Mapping[str, str]
    input_uri: str
    body: bytes | None
    output_uri: str
    failure_uri: str
    config: Json
    received_s: float
    ttl_s: float
    timeout_s: float


class Queues:
    """What waits and runs, by endpoint."""

    def __init__(self, routes: Mapping[str, Route], *, s3: Any, sns: Any, clock: Clock, region: str) -> None:  # noqa: ANN401
        self._routes = routes
        self._s3 = s3
        self._sns = sns
        self._clock = clock
        self._region = region
        self._waiting: dict[str, deque[Job]] = {}
        self._running: dict[str, set[asyncio.Task[None]]] = {}
        self._expired: dict[str, int] = {}
        self._pumps: dict[str, asyncio.Task[None]] = {}

    def add(self, job: Job) -> None:
        """Let a request wait for an instance."""
        self._waiting.setdefault(job.endpoint, deque()).append(job)
        pump = self._pumps.get(job.endpoint)
        if pump is None or pump.done():
            self._pumps[job.endpoint] = asyncio.create_task(self._pump(job.endpoint))

    async def stop(self) -> None:
        """Drop what waits, end what runs."""
        tasks = [*self._pumps.values(), *(task for running in self._running.values() for task in running)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def metric_data(self, now: datetime) -> Iterator[Json]:
        """Give the backlog of every asynchronous endpoint, and what expired since the last time."""
        expired, self._expired = self._expired, {}
        for endpoint, route in self._routes.items():
            if route.asynchronous is None:
                continue
            size = len(self._waiting.get(endpoint, ())) + len(self._running.get(endpoint, ()))
            values = {
                "ApproximateBacklogSize": size,
                # without an instance the whole backlog is that of one
                "ApproximateBacklogSizePerInstance": size / max(1, route.instances),
                "HasBacklogWithoutCapacity": int(size > 0 and route.instances == 0),
                "ExpiredRequests": expired.get(endpoint, 0),
            }
            dimensions = [{"Name": "EndpointName", "Value": endpoint}]
            for name, value in values.items():
                yield {
                    "MetricName": name,
                    "Dimensions": dimensions,
                    "Timestamp": now,
                    "Value": float(value),
                    "Unit": "Count",
                }

    async def _pump(self, endpoint: str) -> None:
        waiting, running = self._waiting[endpoint], self._running.setdefault(endpoint, set())
        while waiting:
            route = self._routes.get(endpoint)
            if route is None:
                waiting.clear()  # the endpoint was deleted, and its queue with it
                return
            self._expire(endpoint, waiting)
            while waiting and len(running) < _capacity(route):
                task = asyncio.create_task(self._run(waiting.popleft(), route))
                running.add(task)
                task.add_done_callback(running.discard)
            await asyncio.sleep(_POLL_S)

    def _expire(self, endpoint: str, waiting: deque[Job]) -> None:
        while waiting and self._clock.now() - waiting[0].received_s > waiting[0].ttl_s:
            waiting.popleft()
            self._expired[endpoint] = self._expired.get(endpoint, 0) + 1

    async def _run(self, job: Job, route: Route) -> None:
        try:
            content_type, answer = await self._answer(job, route)
        except (EndpointError, TimeoutError, BotoCoreError, ClientError) as error:
            reason = str(error) or f"ModelError: no answer within {job.timeout_s:g} s"
            await asyncio.to_thread(self._write, job, reason.encode(), failed=reason)
            return
        await asyncio.to_thread(self._write, job, answer, content_type=content_type)

    async def _answer(self, job: Job, route: Route) -> tuple[str, bytes]:
        body = job.body if job.body is not None else await asyncio.to_thread(self._read, job.input_uri)
        target = route.choose(0.0)
        async with asyncio.timeout(job.timeout_s):
            answer = await target.server.post("/invocations", dict(job.headers), body)
        if not _OK <= answer.status < _MULTIPLE:
            raise EndpointError(f"ModelError: status {answer.status}: {answer.body.decode('utf-8', 'replace')}")
        return answer.headers.get("content-type", "application/octet-stream"), answer.body

    def _read(self, uri: str) -> bytes:
        place = urlsplit(uri)
        body: bytes = self._s3.get_object(Bucket=place.netloc, Key=place.path.lstrip("/"))["Body"].read()
        return body

    def _write(self, job: Job, body: bytes, *, content_type: str = "text/plain", failed: str = "") -> None:
        uri = job.failure_uri if failed else job.output_uri
        try:
            if uri:
                place = urlsplit(uri)
                self._s3.put_object(
                    Bucket=place.netloc, Key=place.path.lstrip("/"), Body=body, ContentType=content_type
                )
            topics = job.config["OutputConfig"].get("NotificationConfig", {})
            topic = topics.get("ErrorTopic" if failed else "SuccessTopic")
            if topic:
                now = datetime.fromtimestamp(self._clock.now(), UTC)
                notice = _notice(job, content_type=content_type, failed=failed, region=self._region, now=now)
                self._sns.publish(TopicArn=topic, Message=orjson.dumps(notice).decode())
        except (BotoCoreError, ClientError) as error:
            _log.warning("answer %s of endpoint %s is lost: %s", job.inference_id, job.endpoint, error)


def _capacity(route: Route) -> int:
    client = (route.asynchronous or {}).get("ClientConfig", {})
    return int(client.get("MaxConcurrentInvocationsPerInstance", _DEFAULT_CONCURRENT)) * route.instances


def _notice(job: Job, *, content_type: str, failed: str, region: str, now: datetime) -> Json:
    """Give the message of the guide's *Check prediction results*."""
    notice: Json = {
        "awsRegion": region,
        "eventTime": now.isoformat(timespec="milliseconds"),
        "receivedTime": datetime.fromtimestamp(job.received_s, UTC).isoformat(timespec="milliseconds"),
        "invocationStatus": "Failed" if failed else "Completed",
        "requestParameters": {
            "contentType": job.headers["content-type"],
            "endpointName": job.endpoint,
            "inputLocation": job.input_uri,
        },
        "inferenceId": job.inference_id,
        "eventVersion": "1.0",
        "eventSource": "aws:sagemaker",
        "eventName": "InferenceResult",
    }
    if failed:
        return notice | {"failureReason": failed, "responseParameters": {"outputLocation": job.failure_uri}}
    return notice | {"responseParameters": {"contentType": content_type, "outputLocation": job.output_uri}}


Submit = Callable[[Job], None]
