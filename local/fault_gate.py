"""Faults of S3 and DynamoDB on demand: calls that meet one are refused as those services refuse them.

S3: User Guide, "Add preconditions to S3 operations with conditional requests", and its list of error responses.
DynamoDB: Developer Guide, "Error handling with DynamoDB".
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from zlib import crc32

import orjson

from local.aws_json import Headers, read_body, send_answer
from local.faults import EVERY, Fault, Faults
from local.operations import Operation, Request, operation_of, request_of, signature_of
from local.replay import again
from local.routing import Asgi, Message, Receive, Send


class Refusal(NamedTuple):
    """What a fault answers."""

    status: int
    code: str
    text: str


_REFUSALS: Final[Mapping[str, Refusal]] = {
    "s3-412": Refusal(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"),
    "s3-409": Refusal(
        409,
        "ConditionalRequestConflict",
        "The conditional request cannot succeed due to a conflicting operation against this resource.",
    ),
    "s3-503": Refusal(503, "SlowDown", "Please reduce your request rate."),
    "dynamodb-throttle": Refusal(
        400,
        "ProvisionedThroughputExceededException",
        "The level of configured provisioned throughput for the table was exceeded. "
        "Consider increasing your provisioning level with the UpdateTable API.",
    ),
}
_CONDITIONAL: Final = frozenset({"s3-412", "s3-409"})
_CONDITIONS: Final = frozenset({"if-match", "if-none-match"})
_WRITES: Final = frozenset({"PUT", "POST", "DELETE"})


class FaultGate:
    """An ASGI application in front of another one; without faults it only looks whether there are any."""

    def __init__(self, behind: Asgi, faults: Faults, *, chance: Callable[[], float] = random.random) -> None:
        self._behind = behind
        self._faults = faults
        self._chance = chance

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        signature = signature_of(scope) if scope["type"] == "http" else None
        service = signature.service if signature is not None else ""
        faults = [fault for fault in self._faults.all() if fault.kind.startswith(f"{service}-")] if service else []
        if not faults:
            await self._behind(scope, receive, send)
            return
        request = request_of(scope)
        if service == "dynamodb":  # the table stands in the body
            body = await read_body(receive)
            if body is None:
                return
            request, receive = request_of(scope, body), again(body, receive)
        operation = operation_of(service, request)
        fault = self._met(faults, operation, request) if operation is not None else None
        if fault is None:
            await self._behind(scope, receive, send)
            return
        if await read_body(receive) is not None:
            await _refuse(service, _REFUSALS[fault.kind], request, send)

    def _met(self, faults: list[Fault], operation: Operation, request: Request) -> Fault | None:
        for fault in faults:
            if _meets(fault, operation, request) and self._chance() < fault.share and self._faults.spend(fault):
                return fault
        return None


def _meets(fault: Fault, operation: Operation, request: Request) -> bool:
    if fault.operation not in {operation.name, EVERY}:
        return False
    if operation.service == "dynamodb":
        return fault.table in {EVERY, *_tables(operation)}
    if fault.kind in _CONDITIONAL and not (request.method in _WRITES and _CONDITIONS & request.headers.keys()):
        return False
    parameters = operation.parameters
    key = str(parameters.get("Key", parameters.get("Prefix", "")))
    return fault.bucket in {parameters.get("Bucket"), EVERY} and key.startswith(fault.prefix)


def _tables(operation: Operation) -> set[str]:
    """Give the tables that a call is about, by name."""
    parameters = operation.parameters
    named = [parameters.get("TableName"), *_entries(parameters.get("RequestItems"))]
    items = parameters.get("TransactItems")
    for item in items if isinstance(items, list) else ():
        named += [_entries(detail).get("TableName") for detail in _entries(item).values()]
    return {str(name).rpartition("/")[2] for name in named if name}


def _entries(found: Any) -> Mapping[str, Any]:  # noqa: ANN401 - any JSON value
    return found if isinstance(found, Mapping) else {}


async def _refuse(service: str, refusal: Refusal, request: Request, send: Send) -> None:
    status, code, text = refusal
    if service == "s3":
        document = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{text}</Message></Error>'
        )
        body = b"" if request.method == "HEAD" else document.encode()
        await send_answer(send, status=status, headers=[(b"content-type", b"application/xml")], body=body)
        return
    body = orjson.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": text})
    checksum = str(crc32(body)).encode()  # clients check it
    headers: Headers = [(b"content-type", b"application/x-amz-json-1.0"), (b"x-amz-crc32", checksum)]
    await send_answer(send, status=status, headers=headers, body=body)
