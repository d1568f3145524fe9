"""Endpoints in motion: Creating, Updating, InService, Failed, with the processes and the route of each."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from local.aws_json import Json, ValidationError
from local.sagemaker.archives import Archive, Archives, archive_uri
from local.sagemaker.deployment import apply_changes, describe_variants, settle
from local.sagemaker.options import Options
from local.sagemaker.routes import Route, route_of
from local.sagemaker.servers import ModelServer, ModelServers
from local.sagemaker.store import Store
from serving.errors import EndpointError

_MAX_REASON = 1024
_log = logging.getLogger(__name__)


class Fleets:
    """The processes behind each endpoint and the background work that changes them; all on one event loop."""

    def __init__(self, store: Store, *, archives: Archives, servers: ModelServers, options: Options) -> None:
        self._store = store
        self._archives = archives
        self._servers = servers
        self._options = options
        self._running: dict[str, dict[str, ModelServer]] = {}
        self._work: dict[str, asyncio.Task[None]] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self.routes: dict[str, Route] = {}

    def resume(self) -> None:
        """Bring back what the stored state says: processes of endpoints in service, and interrupted work."""
        for name, endpoint in self._store.endpoints.items():
            if name in self._store.deployed:
                self._begin(name, self._revive(name))
            elif endpoint["EndpointStatus"] == "Creating":
                self._begin(name, self._deploy(name))

    async def stop(self) -> None:
        """Stop all work and all processes; the stored state stays."""
        work = [*self._work.values(), *self._endings]
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        self.routes.clear()
        self._running.clear()
        await self._servers.stop()

    def deploy(self, name: str, deployment: Json, *, status: str) -> None:
        """Move an endpoint to a deployment in the background; `status` is what it shows meanwhile."""
        self._store.pending[name] = deployment
        self._mark(name, status)
        self._begin(name, self._deploy(name))

    def change(self, name: str, changes: list[Json]) -> None:
        """Give an endpoint new weights or counts; they count once it is InService again."""
        self.refuse_in_progress(name)
        apply_changes(self._store.endpoints[name], changes)
        self._mark(name, "Updating")
        self._begin(name, self._settle(name))

    def remove(self, name: str) -> None:
        """Forget an endpoint and end its processes in the background, whatever it was doing."""
        task = self._work.pop(name, None)
        if task is not None:
            task.cancel()
        self.routes.pop(name, None)
        for documents in (self._store.endpoints, self._store.deployed, self._store.pending):
            documents.pop(name, None)
        self._store.save()
        self._end(task, self._running.pop(name, {}), wait_s=0)

    def refuse_in_progress(self, name: str) -> None:
        """Raise unless the endpoint can be changed."""
        endpoint = self._store.endpoint(name)
        if endpoint["EndpointStatus"] == "Failed":
            raise ValidationError(f'Endpoint "{endpoint["EndpointArn"]}" is Failed; delete it and create it anew.')
        if endpoint["EndpointStatus"] != "InService":
            raise ValidationError(f'Cannot update in-progress endpoint "{endpoint["EndpointArn"]}".')

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._work[name] = asyncio.create_task(work, name=f"endpoint {name}")

    def _mark(self, name: str, status: str) -> None:
        endpoint = self._store.endpoints[name]
        endpoint["EndpointStatus"] = status
        endpoint["LastModifiedTime"] = time.time()
        self._store.save()

    async def _deploy(self, name: str) -> None:
        endpoint, deployment = self._store.endpoints[name], self._store.pending[name]
        try:
            servers = await self._bring_up(deployment, wait=True)
        except EndpointError as error:
            _log.warning("endpoint %s: %s", name, error)
            del self._store.pending[name]
            endpoint["FailureReason"] = str(error)[:_MAX_REASON]
            # a failed update leaves the endpoint on what it had, as a blue/green deployment does
            self._mark(name, "InService" if name in self._store.deployed else "Failed")
            return
        before = self._running.get(name, {})
        self._running[name] = servers
        self._store.deployed[name] = self._store.pending.pop(name)
        endpoint.pop("FailureReason", None)
        endpoint["EndpointConfigName"] = deployment["config"]["EndpointConfigName"]
        endpoint["ProductionVariants"] = describe_variants(deployment, now=time.time())
        self._direct(name)
        self._mark(name, "InService")
        self._end(None, before, wait_s=self._options.termination_wait_s)

    async def _settle(self, name: str) -> None:
        await asyncio.sleep(self._options.weights_update_s)
        settle(self._store.endpoints[name])
        self._direct(name)
        self._mark(name, "InService")

    async def _revive(self, name: str) -> None:
        try:
            self._running[name] = await self._bring_up(self._store.deployed[name], wait=False)
        except EndpointError as error:
            self._store.endpoints[name]["FailureReason"] = str(error)[:_MAX_REASON]
            self._mark(name, "Failed")
            return
        self._direct(name)
        if name in self._store.pending:
            await self._deploy(name)
        elif self._store.endpoints[name]["EndpointStatus"] == "Updating":
            await self._settle(name)

    def _direct(self, name: str) -> None:
        self.routes[name] = route_of(
            self._store.endpoints[name], self._store.deployed[name]["config"], self._running[name]
        )

    async def _bring_up(self, deployment: Json, *, wait: bool) -> dict[str, ModelServer]:
        held: dict[str, ModelServer] = {}
        tasks = [
            asyncio.create_task(self._acquire(deployment, variant, held=held, wait=wait))
            for variant in deployment["config"]["ProductionVariants"]
        ]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for server in held.values():
                await self._servers.release(server)
            raise
        return held

    async def _acquire(self, deployment: Json, variant: Json, *, held: dict[str, ModelServer], wait: bool) -> None:
        name = variant["VariantName"]
        container = deployment["containers"][name]
        archive = await asyncio.to_thread(self._archive, deployment, name, archive_uri(container))
        held[name] = await self._servers.acquire(
            archive,
            container.get("Environment", {}),
            timeout_s=variant.get("ContainerStartupHealthCheckTimeoutInSeconds", self._options.startup_timeout_s),
            wait=wait,
        )

    def _archive(self, deployment: Json, variant: str, uri: str) -> Archive:
        seen = deployment["archives"].get(variant)
        if seen is not None and Path(seen["path"]).exists():
            return Archive(path=Path(seen["path"]), sha256=seen["sha256"])
        archive = self._archives.fetch(uri)
        deployment["archives"][variant] = {"path": str(archive.path), "sha256": archive.sha256}
        return archive

    def _end(self, task: asyncio.Task[None] | None, servers: dict[str, ModelServer], *, wait_s: float) -> None:
        ending = asyncio.create_task(self._finish(task, list(servers.values()), wait_s=wait_s))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)

    async def _finish(self, task: asyncio.Task[None] | None, servers: list[ModelServer], *, wait_s: float) -> None:
        if task is not None:
            await asyncio.wait([task])
        await asyncio.sleep(wait_s)
        for server in servers:
            await self._servers.release(server)
