"""Before the services: a call by a function is asked of its role's policies, all other calls pass."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from local.aws_json import read_body, send_answer
from local.operations import Operation, Request, Signature, needs_body, operation_of, request_of, signature_of
from local.permissions.caller import Caller, Policies, Roles
from local.permissions.calls import Place, calls_of
from local.permissions.conditions import PolicyError
from local.permissions.patterns import Context
from local.permissions.policy import Call, Decision, decide
from local.permissions.refusals import refusal, text_of
from local.replay import again
from local.routing import Asgi, Message, Receive, Send

_NOT_FOUND: Final = 404
_READS_OF_OBJECTS: Final = frozenset({"GetObject", "HeadObject"})
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call of a function, with what its role may do."""

    caller: Caller
    policies: Policies
    signature: Signature
    request: Request
    operation: Operation
    now_s: float

    @property
    def refused(self) -> str | None:
        """Why it is refused, None if it is not."""
        place = Place(self.signature.region, self.caller.account)
        calls = calls_of(self.operation, self.request, place, self._context)
        return next((why for call in calls if (why := self.why_not(call)) is not None), None)

    def why_not(self, call: Call) -> str | None:
        """Say why the role may not make a call, None if it may."""
        decision = decide(call, self.policies.identity, boundary=self.policies.boundary)
        return None if decision is Decision.ALLOWED else text_of(self.caller.arn, call, decision)

    @property
    def hides_absence(self) -> str | None:
        """Why S3 does not tell that an object is absent: who may not list the bucket gets 403 in place of 404."""
        if self.signature.service != "s3" or self.operation.name not in _READS_OF_OBJECTS:
            return None
        bucket = f"arn:aws:s3:::{self.operation.parameters['Bucket']}"
        return self.why_not(Call("s3:ListBucket", bucket, self._context))

    @property
    def _context(self) -> Context:
        return self.caller.context(region=self.signature.region, now_s=self.now_s)


class Gate:
    """An ASGI application in front of another one, for calls signed with a function's key."""

    def __init__(self, behind: Asgi, roles: Roles, *, now: Callable[[], float] = time.time) -> None:
        self._behind = behind
        self._roles = roles
        self._now = now

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        signature = signature_of(scope) if scope["type"] == "http" else None
        caller = self._roles.caller(signature.access_key) if signature is not None else None
        if signature is None or caller is None:
            await self._behind(scope, receive, send)
            return
        request = request_of(scope)
        if needs_body(signature.service, request):
            body = await read_body(receive)
            if body is None:
                return
            request, receive = replace(request, body=body), again(body, receive)
        try:
            asked, why = self._asked(caller, signature, request)
        except PolicyError as error:
            asked, why = None, f"User: {caller.arn} has a policy that IAM would not have taken: {error}"
        if asked is None or why is not None:
            await _refuse(signature.service, why or "", request, send)
            return
        hidden = asked.hides_absence
        if hidden is not None:
            send = _hiding(hidden, request, send)
        await self._behind(scope, receive, send)

    def _asked(self, caller: Caller, signature: Signature, request: Request) -> tuple[_Asked | None, str | None]:
        operation = operation_of(signature.service, request)
        if operation is None:
            told = f"{signature.service} {request.method} {request.path}"
            return None, f"User: {caller.arn} is not authorized: the local stack knows no action of {told}"
        asked = _Asked(caller, self._roles.policies(caller), signature, request, operation, self._now())
        return asked, asked.refused


async def _refuse(service: str, why: str, request: Request, send: Send) -> None:
    _log.info("refused: %s", why)
    status, headers, body = refusal(service, why, by_target="x-amz-target" in request.headers)
    await send_answer(send, status=status, headers=headers, body=b"" if request.method == "HEAD" else body)


def _hiding(why: str, request: Request, send: Send) -> Send:
    """Give a `send` that answers 403 for 404."""
    hidden = False

    async def sends(message: Message) -> None:
        nonlocal hidden
        if message["type"] == "http.response.start" and message["status"] == _NOT_FOUND:
            hidden = True
            await _refuse("s3", why, request, send)
        elif not hidden:
            await send(message)

    return sends
