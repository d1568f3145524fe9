"""A fleet's processes: fetched, started and released; SageMaker's words for what goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

from local.aws_json import Json
from local.faults import Faults
from local.sagemaker.archives import Archive, Archives, archive_uri
from local.sagemaker.deployment import all_variants
from local.sagemaker.endpoint import Endpoint
from local.sagemaker.options import Options
from local.sagemaker.servers import ModelServer, ModelServers
from local.sagemaker.workers import RANDOM, Workers
from serving.errors import EndpointError

_INTERNAL = "Request to service failed. If failure persists after retry, contact customer support."
"""SageMaker's words for a failure of its own."""
_log = logging.getLogger(__name__)


class Provisioner:
    """Gives the model servers of a deployment, and takes them back."""

    def __init__(self, *, archives: Archives, servers: ModelServers, options: Options, faults: Faults) -> None:
        self._faults = faults
        self._archives = archives
        self._servers = servers
        self._options = options

    async def stop(self) -> None:
        """End all processes."""
        await self._servers.stop()

    def lacks_instances(self, endpoint: Endpoint) -> bool:
        """Say whether the instances that an endpoint shall have more of are not to be had."""
        grows = endpoint.fleet is not None and any(
            variant.desired_count > variant.count for variant in endpoint.fleet.variants
        )
        return grows and self._faults.of(endpoint.name, "capacity") is not None

    async def bring_up(self, deployment: Json, *, wait: bool, endpoint: str = "") -> dict[str, Workers]:
        """Give the processes by variant, ready; with `wait` False, maybe not yet ready.

        `endpoint` is whose new fleet it is, "" where no fault can meet it.

        Raises:
            EndpointError: one of them cannot be had; then none is held.

        """
        if endpoint:
            self._meet_faults(endpoint)
        hosted = [
            variant
            for variant in all_variants(deployment["config"])
            if variant["VariantName"] in deployment["containers"]
        ]
        held: list[ModelServer] = []
        tasks = [
            asyncio.create_task(self._acquire(deployment, variant, replica, held=held, wait=wait))
            for variant in hosted
            for replica in range(self._options.processes)
        ]
        try:
            servers = iter(await asyncio.gather(*tasks))
        except BaseException as error:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._servers.release(held)
            if isinstance(error, EndpointError) or not isinstance(error, Exception):
                raise
            # whoever waits for the fleet must learn that it never comes
            _log.exception("a fleet cannot be brought up")
            raise EndpointError(_INTERNAL) from error
        return {
            variant["VariantName"]: Workers(
                tuple(islice(servers, self._options.processes)),
                strategy=variant.get("RoutingConfig", {}).get("RoutingStrategy", RANDOM),
            )
            for variant in hosted
        }

    def _meet_faults(self, endpoint: str) -> None:
        if self._faults.of(endpoint, "capacity") is not None:
            raise EndpointError(
                "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error. "
                "Please retry using a different ML instance type or after some time."
            )
        if self._faults.of(endpoint, "unhealthy") is not None:
            raise EndpointError("The primary container did not pass the ping health check: a fault was asked for")

    async def release(self, workers: Iterable[Workers]) -> None:
        """Give processes back; one that nobody else uses drains and ends."""
        await self._servers.release(chain.from_iterable(each.servers for each in workers))

    async def _acquire(
        self, deployment: Json, variant: Json, replica: int, *, held: list[ModelServer], wait: bool
    ) -> ModelServer:
        name = variant["VariantName"]
        container = deployment["containers"][name]
        archive = await asyncio.to_thread(self._archive, deployment, name, archive_uri(container))
        server = await self._servers.acquire(
            archive,
            container.get("Environment", {}),
            timeout_s=variant.get("ContainerStartupHealthCheckTimeoutInSeconds", self._options.startup_timeout_s),
            wait=wait,
            replica=replica,
        )
        held.append(server)
        return server

    def _archive(self, deployment: Json, variant: str, uri: str) -> Archive:
        seen = deployment["archives"].get(variant)
        if seen is not None and Path(seen["path"]).exists():
            return Archive(path=Path(seen["path"]), sha256=seen["sha256"])
        archive = self._archives.fetch(uri)
        deployment["archives"][variant] = {"path": str(archive.path), "sha256": archive.sha256}
        return archive
