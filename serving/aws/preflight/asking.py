"""How the account is asked: an answer, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from serving.aws.session import client
from serving.errors import StreamHubError
from serving.preflight.live import Unread

T = TypeVar("T")

_ATTEMPTS = 2


class Clients:
    """The clients of one region, each made when it is first needed."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._made: dict[str, Any] = {}

    def __call__(self, service: str) -> Any:  # noqa: ANN401 - boto3 makes clients at run time
        """Give the client of a service."""
        if service not in self._made:
            self._made[service] = client(service, region=self.region, attempts=_ATTEMPTS)
        return self._made[service]


def ask(question: Callable[[], T]) -> T | Unread:
    """Give what AWS answers, or why it does not: a refusal is part of the picture, never an end."""
    try:
        return question()
    except ClientError as error:
        return Unread(_said(error))
    except (BotoCoreError, ResponseParserError, StreamHubError) as error:
        return Unread(" ".join(str(error).split()))


def find(question: Callable[[], T], *, absent: tuple[str, ...]) -> T | None:
    """Give what AWS answers, or None where one of the codes says that there is no such thing."""
    try:
        return question()
    except ClientError as error:
        if code_of(error) in absent:
            return None
        raise


def code_of(error: ClientError) -> str:
    """Give the code of an error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _said(error: ClientError) -> str:
    details = error.response.get("Error", {})
    told = [str(details.get("Code", "")), " ".join(str(details.get("Message", "")).split())]
    return f"{error.operation_name}: {', '.join(part for part in told if part) or 'refused'}"
