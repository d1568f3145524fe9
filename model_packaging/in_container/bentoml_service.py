"""Serves a bento as SageMaker asks a container to: /ping and /invocations, port 8080 or SAGEMAKER_BIND_TO_PORT.

Run as `python bentoml_service.py serve` it becomes `bentoml serve` of itself; each process of that server imports it
and finds the bento's own service, with two more paths in front of its routes.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

HERE = Path(__file__).resolve().parent


class SageMakerRoutes:
    """ASGI middleware: SageMaker's two paths become the service's own."""

    def __init__(self, app: App, invocations: str) -> None:
        self._app = app
        self._paths = {"/ping": "/readyz", "/invocations": invocations}

    async def __call__(self, scope: Scope, receive: object, send: object) -> None:
        """Pass the request on, under the path that answers it."""
        if scope["type"] == "http" and (path := self._paths.get(scope["path"])) is not None:
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self._app(scope, receive, send)


def bento_service() -> Any:  # noqa: ANN401 - BentoML is in the image alone
    """Import the service that `service.json` names, and put the paths in front of it."""
    named = json.loads((HERE / "service.json").read_text(encoding="utf-8"))
    module, _, attribute = named["service"].partition(":")
    service = getattr(importlib.import_module(module), attribute)
    service.add_asgi_middleware(SageMakerRoutes, invocations=named["invocations"])
    return service


if __name__ == "__main__":
    port = os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080")
    arguments = ["bentoml", "serve", f"{Path(__file__).stem}:service", "--host", "0.0.0.0", "--port", port]  # noqa: S104
    os.execvp(arguments[0], arguments)  # noqa: S606 - this process becomes the server
elif __name__ == Path(__file__).stem:  # in the image; as part of a package it stands beside no bento
    service = bento_service()
