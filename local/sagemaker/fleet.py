"""Endpoints in motion: does what `transitions` decides, and tells it what has happened meanwhile.

All on one event loop; each change of state is written before anything else runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from local.aws_json import Json, ValidationError
from local.clock import Clock
from local.sagemaker.alarm_states import AlarmStates
from local.sagemaker.endpoint import Endpoint, Fleet
from local.sagemaker.options import Options
from local.sagemaker.provisioning import Provisioner
from local.sagemaker.routes import Route, route_of
from local.sagemaker.store import Store
from local.sagemaker.transitions import (
    Alarmed,
    Created,
    Deleted,
    Durations,
    Effect,
    Event,
    Forget,
    Healthy,
    Lost,
    NoCapacity,
    Provision,
    Rescaled,
    Terminate,
    Ticked,
    Unhealthy,
    Updated,
    create,
    refuse_in_progress,
    step,
)
from local.sagemaker.workers import Workers
from serving.errors import EndpointError

_MAX_REASON = 1024
_log = logging.getLogger(__name__)


class Fleets:
    """The processes behind each endpoint, and the waiting that moves it on."""

    def __init__(
        self, store: Store, *, provisioner: Provisioner, options: Options, clock: Clock, alarmed: AlarmStates
    ) -> None:
        self._store = store
        self._provisioner = provisioner
        self._options = options
        self._clock = clock
        self._alarmed = alarmed
        self._takes = Durations(
            scaling_s=options.weights_update_s,
            rolling_back_s=options.weights_update_s,
            deleting_s=options.deletion_s,
        )
        self._running: dict[str, dict[int, dict[str, Workers]]] = {}
        self._provisioning: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self.routes: dict[str, Route] = {}

    def resume(self) -> None:
        """Bring back what the stored state says: processes of fleets that serve, and interrupted deployments."""
        for name, endpoint in self._store.endpoints.items():
            rollout = endpoint.rollout
            serving = [fleet for fleet, _ in endpoint.shares]
            for fleet in serving:
                self._begin(name, fleet, self._revive(name, fleet))
            if rollout is not None and rollout.fleet not in serving:
                self._begin(name, rollout.fleet, self._provision(name, rollout.fleet))
            self._follow(name, endpoint)

    async def stop(self) -> None:
        """Stop all work and all processes; the stored state stays."""
        work = [*self._provisioning.values(), *self._timers.values(), *self._watches.values()]
        for task in work:
            task.cancel()
        await asyncio.gather(*work, *self._endings, return_exceptions=True)
        self.routes.clear()
        self._running.clear()
        await self._provisioner.stop()

    def create(self, event: Created, deployment: Json) -> None:
        """Begin to make an endpoint."""
        endpoint, effects = create(event, now=self._clock.now())
        self._store.deployments[event.name] = {endpoint.fleets_made: deployment}
        self._take(event.name, endpoint, effects)

    def update(self, name: str, event: Updated, deployment: Json) -> None:
        """Begin to move an endpoint to another config."""
        self.refuse_in_progress(name)
        number = self._store.endpoint(name).fleets_made + 1
        self._store.deployments[name][number] = deployment
        self._tell(name, event)

    def rescale(self, name: str, event: Rescaled) -> None:
        """Give an endpoint new weights or counts; they count once it is InService again."""
        self.refuse_in_progress(name)
        self._tell(name, event)
        if self._provisioner.lacks_instances(self._store.endpoint(name)):
            self._tell(name, NoCapacity())

    def delete(self, name: str) -> None:
        """Take an endpoint out of service, whatever it was doing; it is gone a little later."""
        self._tell(name, Deleted())

    def refuse_in_progress(self, name: str) -> None:
        """Raise unless the endpoint can be changed."""
        refuse_in_progress(self._store.endpoint(name), arn=self._store.arn("endpoint", name))

    def _tell(self, name: str, event: Event) -> None:
        endpoint = self._store.endpoints.get(name)
        if endpoint is None:
            return  # it was deleted while this was under way
        self._take(name, *step(endpoint, event, now=self._clock.now(), takes=self._takes))

    def _take(self, name: str, endpoint: Endpoint | None, effects: Sequence[Effect]) -> None:
        if endpoint is not None:
            self._store.endpoints[name] = endpoint
        for effect in effects:
            self._do(name, effect)
        self._store.save()
        if endpoint is not None:
            self._direct(name, endpoint)
            self._follow(name, endpoint)

    def _do(self, name: str, effect: Effect) -> None:
        match effect:
            case Provision(fleet):
                self._begin(name, fleet, self._provision(name, fleet))
            case Terminate(fleet):
                self._end(name, fleet)
            case Forget():
                for documents in (self._store.endpoints, self._store.deployments, self._store.policies, self._running):
                    documents.pop(name, None)
                self._store.tags.pop(self._store.arn("endpoint", name), None)
                self._timers.pop(name, None)  # it is the one that says so
                if (watch := self._watches.pop(name, None)) is not None:
                    watch.cancel()

    def _direct(self, name: str, endpoint: Endpoint) -> None:
        if not endpoint.shares:
            self.routes.pop(name, None)
            return
        configs = {number: held["config"] for number, held in self._store.deployments[name].items()}
        self.routes[name] = route_of(endpoint, configs, self._running.get(name, {}))

    def _follow(self, name: str, endpoint: Endpoint) -> None:
        """Wait for what the endpoint does by itself next, and watch its alarms while it bakes."""
        timer = self._timers.pop(name, None)
        if timer is not None and timer is not asyncio.current_task():
            timer.cancel()
        if endpoint.next_due is not None:
            self._timers[name] = asyncio.create_task(self._tick(name, endpoint.next_due), name=f"timer of {name}")
        watch = self._watches.get(name)
        if endpoint.rollout is not None and endpoint.rollout.bakes and (watch is None or watch.done()):
            self._watches[name] = asyncio.create_task(self._watch(name), name=f"alarms of {name}")

    async def _tick(self, name: str, due: float) -> None:
        await self._clock.sleep(due - self._clock.now())
        self._tell(name, Ticked())

    async def _watch(self, name: str) -> None:
        while (endpoint := self._store.endpoints.get(name)) is not None:
            rollout = endpoint.rollout
            if rollout is None or not rollout.bakes:
                return
            if await self._alarmed(rollout.plan.alarms):
                _log.warning("endpoint %s: an alarm of %s rolls %s back", name, rollout.plan.alarms, rollout.fleet)
                self._tell(name, Alarmed(fleet=rollout.fleet.number))
            await self._clock.sleep(self._options.alarm_poll_s)

    def _begin(self, name: str, fleet: Fleet, work: Coroutine[Any, Any, None]) -> None:
        self._provisioning[name, fleet.number] = asyncio.create_task(work, name=f"fleet {fleet.number} of {name}")

    async def _provision(self, name: str, fleet: Fleet) -> None:
        try:
            deployment = self._store.deployments[name][fleet.number]
            servers = await self._provisioner.bring_up(deployment, wait=True, endpoint=name)
        except (EndpointError, ValidationError) as error:
            _log.warning("endpoint %s: %s", name, error)
            self._tell(name, Unhealthy(fleet=fleet.number, reason=str(error)[:_MAX_REASON]))
            return
        self._running.setdefault(name, {})[fleet.number] = servers
        self._tell(name, Healthy(fleet=fleet.number))

    async def _revive(self, name: str, fleet: Fleet) -> None:
        try:
            servers = await self._provisioner.bring_up(self._store.deployments[name][fleet.number], wait=False)
        except EndpointError as error:
            self._tell(name, Lost(fleet=fleet.number, reason=str(error)[:_MAX_REASON]))
            return
        self._running.setdefault(name, {})[fleet.number] = servers
        self._direct(name, self._store.endpoints[name])

    def _end(self, name: str, fleet: Fleet) -> None:
        work = self._provisioning.pop((name, fleet.number), None)
        if work is not None and work is not asyncio.current_task():
            work.cancel()
        self._store.deployments[name].pop(fleet.number, None)
        servers = self._running.get(name, {}).pop(fleet.number, {})
        ending = asyncio.create_task(self._finish(work, list(servers.values())))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _finish(self, work: asyncio.Task[None] | None, servers: list[Workers]) -> None:
        if work is not None:
            await asyncio.wait([work])
        # requests that were sent here a moment ago still arrive
        await asyncio.sleep(self._options.termination_wait_s)
        await self._provisioner.release(servers)
