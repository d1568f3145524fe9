"""SageMaker on one port: `sagemaker` (JSON 1.1) and `runtime.sagemaker` (REST) as one ASGI application.

Who hosts it either sends it ASGI lifespan events, or awaits `start()` before the first request and `stop()` after the
last, on the event loop that serves the requests. `stop()` ends all model servers and writes what is captured and
counted, so S3 and CloudWatch must still answer while it runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import boto3
import orjson
from botocore.config import Config

from local.aws_json import Headers, JsonService, Receive, Scope, Send, send_answer
from local.clock import Clock, SystemClock
from local.faults import Faults
from local.sagemaker.alarm_states import alarm_states
from local.sagemaker.archives import Archives
from local.sagemaker.async_plane import AsyncPlane, async_endpoint_of
from local.sagemaker.backlog import Backlog
from local.sagemaker.capture import Capture
from local.sagemaker.components import Components
from local.sagemaker.containers import Containers
from local.sagemaker.control import ControlPlane
from local.sagemaker.copies import Copies
from local.sagemaker.fleet import Fleets
from local.sagemaker.metrics import Meter
from local.sagemaker.options import Options
from local.sagemaker.provisioning import Provisioner
from local.sagemaker.queues import Queues
from local.sagemaker.runtime_plane import RuntimePlane, endpoint_of
from local.sagemaker.servers import ModelServers
from local.sagemaker.store import Store
from local.sagemaker.stream_plane import StreamPlane, stream_endpoint_of
from local.sagemaker.targets import Targets
from local.settings import LocalSettings
from serving.errors import LocalStackError

_NOT_FOUND = 404
_ATTEMPTS = 6


class SageMakerApp:
    """The ASGI application; see the module for its life."""

    def __init__(
        self,
        settings: LocalSettings,
        options: Options,
        *,
        chance: random.Random,
        scaled: Callable[[str], bool],
        clock: Clock,
    ) -> None:
        s3 = _client(settings, "s3")
        store = Store(settings)
        cloudwatch, faults = _client(settings, "cloudwatch"), Faults(settings.state_dir)
        provisioner = Provisioner(
            archives=Archives(s3, settings.state_dir / "archives"),
            servers=ModelServers(options=options, logs=settings.state_dir / "logs"),
            options=options,
            faults=faults,
        )
        alarmed = alarm_states(cloudwatch)
        self._fleets = Fleets(store, provisioner=provisioner, options=options, clock=clock, alarmed=alarmed)
        copies = Copies(provisioner, clock=clock, options=options, alarmed=alarmed)
        self._components = Components(store, copies, clock=clock, options=options)
        self._capture = Capture(s3, options=options)
        self.meter = Meter(cloudwatch, options=options, clock=clock)
        control = ControlPlane(store, self._fleets, scaled=scaled, clock=clock, bake_pace=options.bake_pace)
        self._control = JsonService("sagemaker", {**control.operations(), **self._components.operations()})
        targets = Targets(
            self._fleets.routes, settings=settings, components=self._components, faults=faults, chance=chance
        )
        self.containers = Containers(targets, chance=chance)
        self._runtime = RuntimePlane(
            targets,
            self.containers,
            settings=settings,
            options=options,
            capture=self._capture,
            meter=self.meter,
            chance=chance,
            clock=clock,
        )
        self._streams = StreamPlane(targets, self.containers, settings=settings, options=options, meter=self.meter)
        self.queues = Queues(
            self._fleets.routes,
            backlog=Backlog(settings.state_dir / "async.sqlite"),
            created=store.created,
            containers=self.containers,
            meter=self.meter,
            s3=s3,
            sns=_client(settings, "sns"),
            clock=clock,
            region=settings.region,
            chance=chance,
        )
        self._asynchronous = AsyncPlane(targets, submit=self.queues.add, created=store.created, clock=clock)
        for source in (self.queues.metric_data, self._components.metric_data):
            self.meter.publish_of(source)

    async def start(self) -> None:
        """Bring back the endpoints of the stored state; model servers become ready in the background."""
        self._capture.start()
        self.meter.start()
        self._fleets.resume()
        self._components.resume()
        self.queues.resume()

    async def stop(self) -> None:
        """End all model servers, then write what is captured and counted."""
        await self.queues.stop()
        await self._components.stop()
        await self._fleets.stop()
        await self._capture.stop()
        await self.meter.stop()

    async def flush(self) -> None:
        """Write what is captured and counted now, not at the next interval."""
        await self._capture.flush()
        await self.meter.flush()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            return
        path = scope["path"] if scope["method"] == "POST" else ""
        if (endpoint := endpoint_of(path)) is not None:
            await self._runtime.serve(endpoint, scope, receive, send)
        elif (endpoint := stream_endpoint_of(path)) is not None:
            await self._streams.serve(endpoint, scope, receive, send)
        elif (endpoint := async_endpoint_of(path)) is not None:
            await self._asynchronous.serve(endpoint, scope, receive, send)
        elif scope["path"] == "/":
            await self._control.serve(scope, receive, send)
        else:
            await _refuse_path(scope, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.start()
                except LocalStackError as error:
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


def create_app(
    settings: LocalSettings,
    *,
    options: Options | None = None,
    chance: random.Random | None = None,
    scaled: Callable[[str], bool] = lambda _resource: False,
    clock: Clock | None = None,
) -> SageMakerApp:
    """Give the application.

    Args:
        settings: those of all services.
        options: of the model servers and their records.
        chance: chooses variants and samples, so a seeded one makes both repeatable.
        scaled: says whether Application Auto Scaling holds a resource, as `endpoint/NAME/variant/NAME`.
        clock: on which statuses, baking and alarms wait; the machine's by default.

    """
    return SageMakerApp(
        settings,
        options or Options(),
        chance=chance or random.Random(),  # noqa: S311 - no secrets
        scaled=scaled,
        clock=clock or SystemClock(),
    )


async def _refuse_path(scope: Scope, send: Send) -> None:
    path = f"{scope['method']} {scope['path']}"
    allowed = "POST / and POST /endpoints/NAME/ with invocations, invocations-response-stream or async-invocations"
    message = f"{path}: the local SageMaker answers {allowed}"
    headers: Headers = [(b"content-type", b"application/json"), (b"x-amzn-errortype", b"UnknownOperationException")]
    await send_answer(send, status=_NOT_FOUND, headers=headers, body=orjson.dumps({"Message": message}))


def _client(settings: LocalSettings, service: str) -> Any:  # noqa: ANN401 - boto3 makes clients at run time
    config = Config(
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        s3={"addressing_style": "path"} if service == "s3" else None,
    )
    return boto3.client(  # type: ignore[call-overload]
        service,
        endpoint_url=settings.s3_endpoint_url,
        region_name=settings.region,
        # the local stack takes any; an access key of twelve digits is an account there
        aws_access_key_id=settings.account,
        aws_secret_access_key=settings.account,
        config=config,
    )
