"""The page over HTTP: its files, its document, and what it asks for; nothing that another site may use.

`GET /_streamhub`, `GET /_streamhub/<file>`, `GET /_streamhub/state.json`, `POST /_streamhub/{traffic,faults,
faults/remove}`. Every answer carries the same strict policy; a refusal is `{"error": <one line>}`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import orjson

from local.aws_json import Headers, read_body, send_answer
from local.page.document import State
from local.page.guard import SECURITY_HEADERS, refuse_change, refuse_foreign
from local.routing import PAGE_PREFIX, Message, Receive, Send
from serving.errors import StreamHubError

STATIC: Final = Path(__file__).parent / "static"
INDEX: Final = "index.html"
MAX_BODY_BYTES: Final = 4096
_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_JSON: Final = b"application/json"
_log = logging.getLogger(__name__)

Action = Callable[[bytes], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file of the page."""

    content_type: bytes
    tag: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What goes back."""

    status: int
    body: bytes = b""
    content_type: bytes = _JSON
    headers: tuple[tuple[bytes, bytes], ...] = ((b"cache-control", b"no-store"),)


def read_assets(folder: Path = STATIC) -> dict[str, Asset]:
    """Read the page's files by name."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in _TYPES:
            body = path.read_bytes()
            tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
            found[path.name] = Asset(content_type=_TYPES[path.suffix], tag=tag, body=body)
    return found


class Page:
    """The ASGI application; `read` and the actions block, so they run in threads."""

    def __init__(
        self, *, assets: Mapping[str, Asset], read: Callable[[], State], actions: Mapping[str, Action]
    ) -> None:
        self._assets = assets
        self._read = read
        self._actions = actions

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        body = await read_body(receive, limit=MAX_BODY_BYTES)
        reply = await self._reply(scope, body)
        if scope["method"] == "HEAD":
            reply = Reply(status=reply.status, content_type=reply.content_type, headers=reply.headers)
        headers: Headers = [(b"content-type", reply.content_type), *reply.headers, *SECURITY_HEADERS]
        await send_answer(send, status=reply.status, headers=headers, body=reply.body)

    async def _reply(self, scope: Message, body: bytes | None) -> Reply:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = refuse_foreign(headers)
        if refused:
            return _refusal(HTTPStatus.FORBIDDEN, refused)
        name, method = scope["path"].removeprefix(PAGE_PREFIX).strip("/"), scope["method"]
        if name in self._actions:
            return await self._act(self._actions[name], method, headers, body)
        if method not in {"GET", "HEAD"}:
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{method}: allowed: GET", allow=b"GET, HEAD")
        if name == "state.json":
            state = await asyncio.to_thread(self._read)
            return Reply(status=HTTPStatus.OK, body=state.encode())
        return self._file(name or INDEX, headers)

    async def _act(self, action: Action, method: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        if method != "POST":
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"{method}: allowed: POST", allow=b"POST")
        refused = refuse_change(headers)
        if refused:
            return _refusal(HTTPStatus.FORBIDDEN, refused)
        if body is None:
            return _refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"body: got more than {MAX_BODY_BYTES} bytes; allowed: up to that"
            )
        try:
            document = await asyncio.to_thread(action, body)
        except StreamHubError as error:
            return _refusal(HTTPStatus.BAD_REQUEST, str(error))
        return Reply(status=HTTPStatus.OK, body=orjson.dumps(document))

    def _file(self, name: str, headers: Mapping[str, str]) -> Reply:
        asset = self._assets.get(name)
        if asset is None:
            return _refusal(HTTPStatus.NOT_FOUND, f"{PAGE_PREFIX}/{name[:80]}: no such file of the page")
        kept = ((b"cache-control", b"no-cache"), (b"etag", asset.tag.encode()))
        if headers.get("if-none-match") == asset.tag:
            return Reply(status=HTTPStatus.NOT_MODIFIED, content_type=asset.content_type, headers=kept)
        return Reply(status=HTTPStatus.OK, body=asset.body, content_type=asset.content_type, headers=kept)


def _refusal(status: HTTPStatus, text: str, *, allow: bytes = b"") -> Reply:
    _log.info("refused with %d: %s", status, text)
    more = ((b"allow", allow),) if allow else ()
    return Reply(status=status, body=orjson.dumps({"error": text}), headers=((b"cache-control", b"no-store"), *more))
