"""What the local AWS has no true answer to is refused; everything else goes through with its body."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from local.absent import Absent

ACCOUNT = "123456789012"


class Behind:
    """Notes the body that reaches it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.bodies.append((await receive())["body"] if scope["type"] == "http" else b"")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"passed"})


def asked(service: str, *chunks: bytes) -> tuple[int, bytes, list[bytes]]:
    behind, sent = Behind(), []
    signature = f"AWS4-HMAC-SHA256 Credential=test/20261202/us-east-1/{service}/aws4_request, SignedHeaders=host"
    left = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    left[-1]["more_body"] = False

    async def receive() -> dict[str, Any]:
        return left.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "path": "/", "headers": [(b"authorization", signature.encode())]}
    asyncio.run(Absent(behind, account=ACCOUNT)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], behind.bodies


@pytest.mark.parametrize(
    ("service", "body"),
    [
        ("servicequotas", b"{}"),
        ("ecr", b'{"registryId": "763104351884"}'),
        ("iam", b"Action=SimulatePrincipalPolicy&Version=2010-05-08"),
    ],
)
def test_what_it_cannot_know_is_refused_by_a_code_of_its_own(service: str, body: bytes) -> None:
    status, answer, behind = asked(service, body)
    assert status == 501
    assert b"NotInTheLocalAws" in answer
    assert behind == []


@pytest.mark.parametrize(
    ("service", "body"),
    [
        ("ecr", json.dumps({"registryId": ACCOUNT}).encode()),
        ("ecr", b"{}"),
        ("ecr", b"no json"),
        ("ecr", b"[]"),
        ("iam", b"Action=GetRole&RoleName=r"),
        ("s3", b"Action=SimulatePrincipalPolicy"),
    ],
)
def test_everything_else_goes_through_with_its_body(service: str, body: bytes) -> None:
    status, answer, behind = asked(service, body[:3], body[3:])
    assert (status, answer) == (200, b"passed")
    assert behind == ([body] if service != "s3" else [body[:3]])
