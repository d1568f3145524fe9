"""Asynchronous endpoints: requests wait in a queue, answers go to S3, notices to SNS.

Sources: SageMaker API reference, InvokeEndpointAsync and AsyncInferenceConfig; guide, *Asynchronous inference* (check
predictions, monitor): an endpoint without instances keeps what waits and says so in HasBacklogWithoutCapacity.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from botocore.exceptions import ConnectionError as NoConnectionError

from local.aws_json import Json
from local.clock import Clock
from local.sagemaker.backlog import Backlog, Job
from local.sagemaker.containers import Containers
from local.sagemaker.metrics import Invocation, Meter
from local.sagemaker.places import place_of
from local.sagemaker.routes import Route
from local.sagemaker.wire import DEFAULT_TYPE
from serving.errors import EndpointError

_DEFAULT_CONCURRENT = 4
"""Where MaxConcurrentInvocationsPerInstance is not given SageMaker chooses; this is our choice."""
_POLL_S = 0.05
_RETRY_S = 1.0
_SERVER_ERROR = 500
_MAX_REASON = 1024
_AWAY = (NoConnectionError, HTTPClientError, IncompleteReadError)
_REFUSED = (BotoCoreError, ClientError)
T = TypeVar("T")
_log = logging.getLogger(__name__)

Submit = Callable[[Job], None]
Created = Callable[[str], float | None]
"""Says when the endpoint of a name was made, None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a request: a body, or why it failed."""

    body: bytes = b""
    content_type: str = ""
    failed: str = ""


class Queues:
    """What waits and runs, by endpoint; every request is in the backlog's file until its answer is written."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        backlog: Backlog,
        created: Created,
        containers: Containers,
        meter: Meter,
        s3: Any,  # noqa: ANN401 - a boto3 client, as the next
        sns: Any,  # noqa: ANN401
        clock: Clock,
        region: str,
        chance: random.Random,
    ) -> None:
        self._routes = routes
        self._backlog = backlog
        self._created = created
        self._containers = containers
        self._meter = meter
        self._s3 = s3
        self._sns = sns
        self._clock = clock
        self._region = region
        self._chance = chance
        self._waiting: dict[str, deque[Job]] = {}
        self._running: dict[str, dict[asyncio.Task[None], Job]] = {}
        self._expired: dict[str, int] = {}
        self._pumps: dict[str, asyncio.Task[None]] = {}

    def resume(self) -> None:
        """Let what an earlier run left go on waiting."""
        for job in self._backlog.jobs():
            self._wait(job)

    def add(self, job: Job) -> None:
        """Let a request wait for an instance; it is kept when this returns."""
        self._backlog.add(job)
        self._wait(job)

    async def stop(self) -> None:
        """End what runs; it and what waits is in the backlog."""
        tasks = [*self._pumps.values(), *(task for running in self._running.values() for task in running)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._backlog.close()

    def metric_data(self, now: datetime) -> Iterator[Json]:
        """Give the backlog of every asynchronous endpoint, and what expired since the last time."""
        expired, self._expired = self._expired, {}
        for endpoint, route in self._routes.items():
            if route.asynchronous is None:
                continue
            waiting = self._waiting.get(endpoint, ())
            size = len(waiting) + len(self._running.get(endpoint, ()))
            values = {
                "ApproximateAgeOfOldestRequest": self._clock.now() - waiting[0].received_s if waiting else 0.0,
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
                    "Unit": "Seconds" if name == "ApproximateAgeOfOldestRequest" else "Count",
                }

    def _wait(self, job: Job) -> None:
        self._waiting.setdefault(job.endpoint, deque()).append(job)
        pump = self._pumps.get(job.endpoint)
        if pump is None or pump.done():
            self._pumps[job.endpoint] = asyncio.create_task(self._pump(job.endpoint))

    async def _pump(self, endpoint: str) -> None:
        waiting, running = self._waiting[endpoint], self._running.setdefault(endpoint, {})
        while waiting or running:
            self._drop_orphans(endpoint, waiting, running)
            self._expire(endpoint, waiting)
            # an endpoint that comes back after a restart has no route yet
            route = self._routes.get(endpoint)
            while route is not None and waiting and len(running) < _capacity(route):
                job = waiting.popleft()
                task = asyncio.create_task(self._run(job, route))
                running[task] = job
                task.add_done_callback(running.pop)
            await asyncio.sleep(_POLL_S)
        for held in (self._waiting, self._running, self._pumps):
            del held[endpoint]

    def _drop_orphans(self, endpoint: str, waiting: deque[Job], running: Mapping[asyncio.Task[None], Job]) -> None:
        """Forget what was sent to an endpoint that is deleted, also when there is a new one of its name."""
        created = self._created(endpoint)
        while waiting and waiting[0].endpoint_created != created:  # what is for the new one came later
            self._backlog.remove(waiting.popleft())
        for task, job in running.items():
            if job.endpoint_created != created:
                task.cancel()
                self._backlog.remove(job)

    def _expire(self, endpoint: str, waiting: deque[Job]) -> None:
        now = self._clock.now()
        expired = [job for job in waiting if now - job.received_s > job.ttl_s]
        if not expired:
            return
        gone = {job.id for job in expired}
        kept = [job for job in waiting if job.id not in gone]
        waiting.clear()
        waiting.extend(kept)
        for job in expired:
            self._backlog.remove(job)
        self._expired[endpoint] = self._expired.get(endpoint, 0) + len(expired)

    async def _run(self, job: Job, route: Route) -> None:
        try:
            body = job.body if job.body is not None else await patiently(self._read, job.input_uri)
            target = self._route(job, route).choose(self._chance.random())
        except (*_REFUSED, EndpointError) as error:
            await self._finish(job, Result(failed=str(error)))
            return
        exchange = await self._containers.ask(target, dict(job.headers), body, timeout_s=job.timeout_s)
        model_s = exchange.model_s
        status, concurrent = exchange.answer.status, exchange.concurrent
        self._meter.count(target, Invocation(status=status, model_s=model_s, total_s=model_s, concurrent=concurrent))
        if exchange.good:
            kind = exchange.answer.headers.get("content-type", DEFAULT_TYPE)
            await self._finish(job, Result(body=exchange.answer.body, content_type=kind))
        else:
            said = f"ModelError: status {status}: {exchange.said}"
            await self._finish(job, Result(failed=said))

    async def _finish(self, job: Job, result: Result) -> None:
        """Write what came of a request, tell of it, and forget it: in this order, so that a restart loses nothing.

        An answer that S3 refuses is a failure, which is written and told in its turn.
        """
        try:
            await patiently(self._write, job, result)
        except _REFUSED as error:
            _log.warning("answer %s of endpoint %s: %s", job.inference_id, job.endpoint, error)
            if not result.failed:
                await self._finish(job, Result(failed=str(error)))
                return
        try:
            await patiently(self._tell, job, result)
        except _REFUSED as error:
            _log.warning("notice of %s of endpoint %s: %s", job.inference_id, job.endpoint, error)
        self._backlog.remove(job)

    def _route(self, job: Job, before: Route) -> Route:
        """Give the endpoint's route of now: reading an input may take as long as its fleet lives."""
        now = self._routes.get(job.endpoint, before)
        return now if now.instances else before

    def _read(self, uri: str) -> bytes:
        place = place_of(uri)
        body: bytes = self._s3.get_object(Bucket=place.bucket, Key=place.key)["Body"].read()
        return body

    def _write(self, job: Job, result: Result) -> None:
        uri = job.failure_uri if result.failed else job.output_uri
        if uri:
            place = place_of(uri)
            body = result.failed.encode() if result.failed else result.body
            kind = "text/plain" if result.failed else result.content_type
            self._s3.put_object(Bucket=place.bucket, Key=place.key, Body=body, ContentType=kind)

    def _tell(self, job: Job, result: Result) -> None:
        topics = job.config["OutputConfig"].get("NotificationConfig", {})
        topic = topics.get("ErrorTopic" if result.failed else "SuccessTopic")
        if topic:
            now = datetime.fromtimestamp(self._clock.now(), UTC)
            message = orjson.dumps(notice(job, result, region=self._region, now=now)).decode()
            self._sns.publish(TopicArn=topic, Message=message)


def _capacity(route: Route) -> int:
    client = (route.asynchronous or {}).get("ClientConfig", {})
    return int(client.get("MaxConcurrentInvocationsPerInstance", _DEFAULT_CONCURRENT)) * route.instances


def notice(job: Job, result: Result, *, region: str, now: datetime) -> Json:
    """Give the message of the guide's *Check prediction results*."""
    told: Json = {
        "awsRegion": region,
        "eventTime": now.isoformat(timespec="milliseconds"),
        "receivedTime": datetime.fromtimestamp(job.received_s, UTC).isoformat(timespec="milliseconds"),
        "invocationStatus": "Failed" if result.failed else "Completed",
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
    if result.failed:
        # the whole of it lies at the failure's place; SNS takes no more than 256 KiB (API Publish)
        reason = result.failed[:_MAX_REASON]
        return told | {"failureReason": reason, "responseParameters": {"outputLocation": job.failure_uri}}
    return told | {"responseParameters": {"contentType": result.content_type, "outputLocation": job.output_uri}}


async def patiently(call: Callable[..., T], *given: object) -> T:
    """Call in a thread until the service is there: no answer and 5xx are tried again, a refusal is raised.

    Raises:
        ClientError: the service refuses.
        BotoCoreError: no such call can be sent: no bucket or key has that name.

    """
    while True:
        try:
            return await asyncio.to_thread(call, *given)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] < _SERVER_ERROR:
                raise
            _log.warning("tried again in %g s: %s", _RETRY_S, error)
        except _AWAY as error:
            _log.warning("tried again in %g s: %s", _RETRY_S, error)
        await asyncio.sleep(_RETRY_S)
