from __future__ import annotations

import asyncio
from typing import Any

from local.routing import Gateway


async def nothing() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


class Service:
    """Notes its life; answers lifespan only if it is told to."""

    def __init__(self, name: str, notes: list[str], *, has_lifespan: bool) -> None:
        self.name, self.notes, self.has_lifespan = name, notes, has_lifespan

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            self.notes.append(f"{self.name} asked")
            return
        if not self.has_lifespan:
            raise TypeError("no lifespan")
        await receive()
        self.notes.append(f"{self.name} up")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.notes.append(f"{self.name} down")
        await send({"type": "lifespan.shutdown.complete"})


def test_services_start_in_order_and_end_in_reverse_while_the_gateway_answers() -> None:
    notes: list[str] = []

    async def live() -> None:
        gateway = Gateway(
            {
                "other": Service("other", notes, has_lifespan=True),
                "page": Service("page", notes, has_lifespan=False),
                "sagemaker": Service("sagemaker", notes, has_lifespan=True),
            }
        )
        await gateway.open()
        await gateway({"type": "http", "path": "/", "headers": []}, nothing, nothing)
        await gateway.close()

    asyncio.run(live())
    assert notes == ["other up", "sagemaker up", "other asked", "sagemaker down", "other down"]
