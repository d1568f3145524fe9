"""Questions to which the local AWS has no true answer: refused in so many words, so that nobody takes a made-up one.

Quotas and other accounts' container registries do not exist here, and the emulator's policy simulator ignores the
policies that AWS manages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qs

import orjson

from local.aws_json import CONTENT_TYPE, header, read_body, send_answer
from local.routing import Asgi, Message, Receive, Send

_SCOPE = re.compile(r"Credential=[^/,\s]+/\d{8}/[^/]+/([^/]+)/aws4_request")
_CODE = "NotInTheLocalAws"
_XML = b"text/xml"


class Absent:
    """An ASGI application in front of another one; all but those questions go through."""

    def __init__(self, behind: Asgi, *, account: str) -> None:
        self._behind = behind
        self._account = account

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Refuse a question of that kind, pass anything else on."""
        service = signed_for(scope) if scope["type"] == "http" else ""
        if service not in _REFUSALS:
            await self._behind(scope, receive, send)
            return
        body = await read_body(receive)
        if body is None:
            return
        why = _REFUSALS[service](body, self._account)
        if why:
            await _refuse(service, why, send)
            return
        await self._behind(scope, _again(body), send)


def signed_for(scope: Message) -> str:
    """Give the service that a request is signed for; "" for none."""
    signed = _SCOPE.search(header(scope, b"authorization") or "")
    return signed[1] if signed is not None else ""


def _quotas(_body: bytes, _account: str) -> str:
    return "the local AWS has no quotas"


def _registry(body: bytes, account: str) -> str:
    try:
        owner = orjson.loads(body or b"{}").get("registryId", account)
    except (orjson.JSONDecodeError, AttributeError):
        return ""
    return "" if owner == account else f"the local AWS has no registry of account {owner}"


def _simulation(body: bytes, _account: str) -> str:
    asked = parse_qs(body.decode("latin-1")).get("Action", [""])[0]
    return "the local AWS simulates no policies" if asked == "SimulatePrincipalPolicy" else ""


_REFUSALS: Final[Mapping[str, Callable[[bytes, str], str]]] = {
    "servicequotas": _quotas,
    "ecr": _registry,
    "iam": _simulation,
}


async def _refuse(service: str, why: str, send: Send) -> None:
    if service == "iam":
        text = f"<ErrorResponse><Error><Code>{_CODE}</Code><Message>{why}</Message></Error></ErrorResponse>"
        await send_answer(send, status=501, headers=[(b"content-type", _XML)], body=text.encode())
        return
    document = orjson.dumps({"__type": _CODE, "message": why})
    await send_answer(send, status=501, headers=[(b"content-type", CONTENT_TYPE)], body=document)


def _again(body: bytes) -> Receive:
    """Give a `receive` that tells a body that was read already."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    return receive
