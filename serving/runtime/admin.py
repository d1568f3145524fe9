"""Routes that load and unload models: SageMaker's multi-model contract and the Open Inference Protocol's repository.

Sources: *Custom Containers Contract for Multi-Model Endpoints*
(https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html), and Triton's model repository extension
(server, docs/protocol/extension_model_repository.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote

import orjson

from serving.errors import (
    AlreadyLoadedError,
    ArchiveError,
    HostingError,
    InvalidRequestError,
    NoRoomError,
    NotLoadedError,
    StreamHubError,
)
from serving.runtime.exchange import Exchange, Head
from serving.runtime.repository import TRITON_VERSION, Hosted, State
from serving.runtime.residency import Residency
from serving.runtime.shelf import Shelf, inside

_PAGE = 100
_NAME_CHARACTERS = 256
_STATUS: dict[type[StreamHubError], int] = {
    InvalidRequestError: 400,
    ArchiveError: 400,
    HostingError: 400,
    NotLoadedError: 404,
    AlreadyLoadedError: 409,
    NoRoomError: 507,
}
Handler = Callable[[Exchange], None]


class Infer(Protocol):
    """Gives what answers the inferences of one head."""

    def __call__(self, head: Head, *, hosted: Hosted) -> Handler:
        """Give it for one model."""
        ...


Answering = Coroutine[Any, Any, object]


class Admin:
    """The models of a server from outside; `models_root` is where SageMaker puts models, `shelf` what may be named."""

    def __init__(
        self,
        residency: Residency,
        *,
        infer: Infer,
        models_root: Path | None = None,
        shelf: Shelf | None = None,
    ) -> None:
        self._residency = residency
        self._repository = residency.repository
        self._infer = infer
        self._models_root = models_root
        self._shelf = shelf
        self._tasks: set[asyncio.Task[None]] = set()

    def route(self, head: Head) -> Handler | None:  # noqa: PLR0911 - a table of paths
        """Give what answers a request for a path of these; None: it is another one."""
        path, _, query = head.path.decode("latin-1").partition("?")
        match [unquote(part) for part in path.split("/")]:
            case ["", "models"] if self._models_root is not None:
                return _by_method(head, GET=partial(self._list, query=query), POST=self._later(self._load_url))
            case ["", "models", name] if self._models_root is not None:
                unload = self._later(partial(self._unload, name=name))
                return _by_method(head, GET=partial(self._show, name=name), DELETE=unload)
            case ["", "models", name, "invoke"] if self._models_root is not None:
                return _by_method(head, POST=self._invoke(head, name))
            case ["", "v2", "repository", "index"]:
                return _by_method(head, POST=self._index)
            case ["", "v2", "repository", "models", name, "load"]:
                return _by_method(head, POST=self._later(partial(self._load_named, name=name)))
            case ["", "v2", "repository", "models", name, "unload"]:
                return _by_method(head, POST=self._later(partial(self._unload_named, name=name)))
        return None

    def _later(self, answer: Callable[[Exchange], Answering]) -> Handler:
        def handle(exchange: Exchange) -> None:
            task = asyncio.ensure_future(_answered(exchange, answer(exchange)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return handle

    async def _load_url(self, exchange: Exchange) -> object:
        asked = _document(exchange.body)
        name, url = asked.get("model_name"), asked.get("url")
        if not isinstance(name, str) or not _usable(name) or not isinstance(url, str):
            raise InvalidRequestError(
                f"body: got model_name {name!r:.300} and url {url!r:.300}; "
                f"allowed a name of 1 to {_NAME_CHARACTERS} characters without / and the path of a model; send both"
            )
        assert self._models_root is not None  # noqa: S101 - the route is only there with it
        await self._residency.load(name, inside(self._models_root, url))
        return {"status": f"loaded {name}"}

    async def _unload(self, exchange: Exchange, *, name: str) -> object:
        del exchange
        await self._residency.unload(name)
        return {"status": f"unloaded {name}"}

    async def _load_named(self, exchange: Exchange, *, name: str) -> object:
        shelf = self._named(exchange)
        await self._residency.load(name, shelf.source(name), again=True)
        return None

    async def _unload_named(self, exchange: Exchange, *, name: str) -> object:
        self._named(exchange)
        await self._residency.unload(name)
        return None

    def _named(self, exchange: Exchange) -> Shelf:
        parameters = _document(exchange.body).get("parameters") or {}
        if not isinstance(parameters, dict) or parameters.keys() - {"unload_dependents"}:
            raise InvalidRequestError(
                f"parameters: got {parameters!r:.300}; allowed none (unload_dependents is ignored); "
                f"a model is loaded as it lies in the repository"
            )
        if self._shelf is None:
            raise HostingError(
                "models: got a request to load or unload one; allowed with --model-repository only; "
                "start the server with the folder that they are in"
            )
        return self._shelf

    def _invoke(self, head: Head, name: str) -> Handler:
        hosted = self._repository.get(name)
        return self._infer(head, hosted=hosted) if hosted is not None else partial(_missing, name=name)

    def _show(self, exchange: Exchange, *, name: str) -> None:
        try:
            exchange.answer(200, orjson.dumps(self._entry(name)))
        except NotLoadedError as error:
            exchange.fail(404, str(error))

    def _list(self, exchange: Exchange, *, query: str) -> None:
        token = parse_qs(query).get("next_page_token", [""])[-1]
        names = sorted(hosted.name for hosted in self._repository if hosted.name > token)
        document: dict[str, object] = {"models": [self._entry(name) for name in names[:_PAGE]]}
        if len(names) > _PAGE:
            document["nextPageToken"] = names[_PAGE - 1]
        exchange.answer(200, orjson.dumps(document))

    def _entry(self, name: str) -> dict[str, str]:
        return {"modelName": name, "modelUrl": str(self._residency.source(name))}

    def _index(self, exchange: Exchange) -> None:
        try:
            only_ready = _document(exchange.body).get("ready", False)
        except InvalidRequestError as error:
            exchange.fail(400, str(error))
            return
        rows = self._rows()
        exchange.answer(200, orjson.dumps([row for row in rows if not only_ready or row["state"] == State.READY]))

    def _rows(self) -> list[dict[str, str]]:
        there = {
            hosted.name: _row(hosted.name, TRITON_VERSION, hosted.state, hosted.reason)
            for hosted in (*self._repository.leaving, *self._repository)
        }
        known = set(self._shelf.sources()) if self._shelf is not None else set()
        failed = self._repository.failed
        for name in sorted((known | set(failed) | self._residency.loading) - there.keys()):
            if name in self._residency.loading:
                there[name] = _row(name, "", State.LOADING, "")
            else:
                there[name] = _row(name, "", State.UNAVAILABLE, failed.get(name, "not loaded"))
        return [there[name] for name in sorted(there)]


async def _answered(exchange: Exchange, answer: Answering) -> None:
    try:
        document = await answer
    except StreamHubError as error:
        status = next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)
        exchange.fail(status, str(error))
    except Exception as error:
        exchange.fail(500, f"server: failed on this request ({type(error).__name__}); its log says why; report it")
        raise
    else:
        exchange.answer(200, b"" if document is None else orjson.dumps(document))


def _by_method(head: Head, **handlers: Handler) -> Handler:
    method = "GET" if head.method == b"HEAD" else head.method.decode("latin-1")
    return handlers.get(method) or partial(_other_method, allowed=", ".join(handlers))


def _other_method(exchange: Exchange, *, allowed: str) -> None:
    got = exchange.head.method.decode("latin-1")
    extra = b"allow: %s\r\n" % allowed.encode()
    exchange.fail(405, f"method: got {got}; allowed {allowed}; use one of them", extra)


def _missing(exchange: Exchange, *, name: str) -> None:
    exchange.fail(404, f"model {name[:200]!r}: got a name that is not loaded; allowed a loaded model; load it first")


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body) if body.strip() else {}
    except orjson.JSONDecodeError as error:
        raise InvalidRequestError(f"body: got no JSON ({error}); allowed an object; correct it") from None
    if not isinstance(document, dict):
        raise InvalidRequestError(f"body: got a {type(document).__name__}; allowed an object; correct it")
    return document


def _usable(name: str) -> bool:
    return 0 < len(name) <= _NAME_CHARACTERS and "/" not in name and name.isprintable()


def _row(name: str, version: str, state: State, reason: str) -> dict[str, str]:
    return {"name": name, "version": version, "state": state.value, "reason": reason}
