"""What is done with a component is done one after the other: what was said last is what serves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from local.clock import ManualClock
from local.sagemaker.components import Components
from local.sagemaker.copies import Copies
from local.sagemaker.endpoint import Endpoint, Fleet
from local.sagemaker.options import Options
from local.sagemaker.store import Store
from local.settings import LocalSettings

SPEC = {"Container": {"Image": "i", "ArtifactUrl": "s3://b/old"}}


class Slow:
    """Copies that come back only when they are let, and tell what was done with them in its order."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.told: list[str] = []

    async def revive(self, _name: str, _deployment: Any) -> None:
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.told.append("given up")
            raise
        self.told.append("revived")

    async def move(self, *_: Any, **__: Any) -> None:
        self.told.append("moved")

    async def remove(self, _name: str) -> None:
        self.told.append("removed")


def resumed(folder: Path, copies: Slow, clock: ManualClock) -> Components:
    """Give the components of a service that starts again with one in service."""
    store = Store(LocalSettings(state_dir=folder, s3_endpoint_url="http://127.0.0.1:1"))
    fleet = Fleet(number=1, config="host", variants=())
    store.endpoints["host"] = Endpoint(
        name="host", config="host", status="InService", created=0, modified=0, fleet=fleet
    )
    store.deployments["host"] = {1: {"config": {"ProductionVariants": [{"VariantName": "fleet"}]}}}
    store.components["part"] = {
        "InferenceComponentName": "part",
        "EndpointName": "host",
        "VariantName": "fleet",
        "InferenceComponentStatus": "InService",
        "CreationTime": 0.0,
        "LastModifiedTime": 0.0,
        "copies": 1,
        "desired": 1,
        "spec": SPEC,
        "container": {"Image": "i", "ModelDataUrl": "s3://b/old"},
        "archives": {},
    }
    components = Components(store, cast("Copies", copies), clock=clock, options=Options())
    components.resume()
    return components


def test_an_update_during_the_return_from_a_restart_is_what_serves_in_the_end(tmp_path: Path) -> None:
    async def run() -> list[str]:
        copies, clock = Slow(), ManualClock()
        components = resumed(tmp_path, copies, clock)
        components.update({"InferenceComponentName": "part", "Specification": SPEC})
        await clock.advance(1)
        copies.free.set()
        await clock.advance(1)
        await components.stop()
        return copies.told

    assert asyncio.run(run()) == ["revived", "moved"]


def test_a_component_that_is_deleted_before_it_is_back_never_comes_back(tmp_path: Path) -> None:
    async def run() -> list[str]:
        copies, clock = Slow(), ManualClock()
        components = resumed(tmp_path, copies, clock)
        components.update({"InferenceComponentName": "part", "Specification": SPEC})
        await clock.advance(1)
        components.delete({"InferenceComponentName": "part"})
        await clock.advance(1)
        copies.free.set()
        await clock.advance(1)
        await components.stop()
        return copies.told

    assert asyncio.run(run()) == ["given up", "removed"]


def test_who_deletes_a_component_again_does_not_keep_it_longer(tmp_path: Path) -> None:
    async def run() -> list[str]:
        copies, clock = Slow(), ManualClock()
        copies.free.set()
        components = resumed(tmp_path, copies, clock)
        for _ in range(4):
            components.delete({"InferenceComponentName": "part"})
            await clock.advance(Options().deletion_s / 4)
        await components.stop()
        return copies.told

    assert asyncio.run(run())[-1] == "removed"
