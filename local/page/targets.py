"""What a burst can be sent to: the API's routes and the stage's endpoints, each with the model's own sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from local.page.endpoints import Known
from local.page.traffic import Bodies, Target, varied
from serving.spec import ModelSpec


class Targets:
    """Reads samples once; a route is there once the prediction API has said where it answers."""

    def __init__(
        self,
        *,
        models: Mapping[str, ModelSpec],
        known: Mapping[str, Known],
        folder: Path,
        aws_url: str,
        api_url: Callable[[], str],
    ) -> None:
        self._routes = list(_routes(models, folder))
        self._endpoints = list(_endpoints(known, folder, aws_url))
        self._api_url = api_url

    def __call__(self) -> Sequence[Target]:
        """Give what answers now: routes first."""
        api_url = self._api_url()
        routes = [
            Target(
                id=f"route:{model.api.route}",
                label=f"route {model.api.route}",
                url=api_url + model.api.route,
                body=body,
            )
            for model, body in (self._routes if api_url else ())
        ]
        return [*routes, *self._endpoints]


def _routes(models: Mapping[str, ModelSpec], folder: Path) -> Iterator[tuple[ModelSpec, Bodies]]:
    for name, model in sorted(models.items()):
        path = folder / name / "samples" / "api.json"
        if path.is_file():
            yield model, varied(orjson.loads(path.read_bytes()), model.api.unit)


def _endpoints(known: Mapping[str, Known], folder: Path, aws_url: str) -> Iterator[Target]:
    for name, found in sorted(known.items()):
        path = folder / found.model.name / "samples" / "request.json"
        if path.is_file():
            yield Target(
                id=f"endpoint:{name}",
                label=f"endpoint {name}",
                url=f"{aws_url}/endpoints/{name}/invocations",
                body=_always(path.read_bytes()),
            )


def _always(body: bytes) -> Bodies:
    return lambda _number: body
