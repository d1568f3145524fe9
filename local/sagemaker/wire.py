"""How the runtime API speaks on the wire: headers in, refusals out."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from local.aws_json import AwsError, Headers, Json, Scope, Send, send_answer
from local.settings import LocalSettings

PREFIX = "x-amzn-sagemaker-"
CUSTOM = f"{PREFIX}custom-attributes"
DEFAULT_TYPE = "application/octet-stream"
SESSION = f"{PREFIX}session-id"
FORWARDED = ("content-type", "accept", CUSTOM, f"{PREFIX}inference-id", SESSION)
"""The container sees these and no other header of the caller (guide, *your-algorithms-inference-code*)."""
NEW_SESSION = f"{PREFIX}new-session-id"
CLOSED_SESSION = f"{PREFIX}closed-session-id"
RETURNED = (CUSTOM, NEW_SESSION, CLOSED_SESSION)
"""The caller sees these of the container's, beside its Content-Type (API InvokeEndpoint)."""
_MAX_MESSAGE = 4096
_FIRST_SERVER_ERROR = 500
_MOST_CHARACTERS: Mapping[str, int] = {
    "accept": 1024,
    CUSTOM: 1024,
    f"{PREFIX}inference-id": 64,
    SESSION: 256,
    f"{PREFIX}target-variant": 63,
    f"{PREFIX}inference-component": 63,
}
"""Of the headers of InvokeEndpoint (botocore's model of the runtime)."""


class ModelError(AwsError):
    """The container answered no 2xx; the caller sees 424 with what it said."""

    def __init__(self, message: str, *, original_status: int, original: str, log_arn: str) -> None:
        super().__init__("ModelError", message, status=424)
        self.original_status = original_status
        self.original = original
        self.log_arn = log_arn


def validation(message: str) -> AwsError:
    """Give the runtime's refusal of a request."""
    return AwsError("ValidationError", message)


def header_map(scope: Scope) -> dict[str, str]:
    """Give the request's headers by lower-case name."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def refuse_long(sent: Mapping[str, str]) -> None:
    """Raise ValidationError if a header is longer than the API takes."""
    found = [
        f"Value at '{name}' failed to satisfy constraint: Member must have length less than or equal to {most}"
        for name, most in _MOST_CHARACTERS.items()
        if len(sent.get(name, "")) > most
    ]
    if found:
        plural = "s" if len(found) > 1 else ""
        raise validation(f"{len(found)} validation error{plural} detected: {'; '.join(found)}")


def forwarded(sent: Mapping[str, str]) -> dict[str, str]:
    """Give the headers that the container sees."""
    headers = {name: sent[name] for name in FORWARDED if name in sent}
    headers.setdefault("content-type", DEFAULT_TYPE)
    return headers


def returned(headers: Mapping[str, str], variant: str) -> Headers:
    """Give the headers that the caller sees of a container's answer, without its type."""
    kept: Headers = [(name.encode(), headers[name].encode("latin-1")) for name in RETURNED if name in headers]
    return [(b"x-amzn-invoked-production-variant", variant.encode("latin-1")), *kept]


def model_error(settings: LocalSettings, endpoint: str, status: int, said: str) -> ModelError:
    """Give the error of a container that answered no 2xx; `status` 0 where it answered nothing."""
    account, region = settings.account, settings.region
    group = f"/aws/sagemaker/Endpoints/{endpoint}"
    kind = "client" if 0 < status < _FIRST_SERVER_ERROR else "server"
    message = (
        f'Received {kind} error ({status}) from primary with message "{said[:_MAX_MESSAGE]}". See '
        f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#logEventViewer:group={group} "
        f"in account {account} for more information."
    )
    log_arn = f"arn:aws:logs:{region}:{account}:log-group:{group}"
    return ModelError(message, original_status=status, original=said[:_MAX_MESSAGE], log_arn=log_arn)


async def refuse(send: Send, error: AwsError) -> None:
    """Answer an error as the runtime API does."""
    # an error without a text has `message: null`, as throttled callers see it
    document: Json = {"Message": str(error)} if str(error) else {"message": None}
    if isinstance(error, ModelError):
        document |= {
            "OriginalStatusCode": error.original_status,
            "OriginalMessage": error.original,
            "LogStreamArn": error.log_arn,
        }
    headers: Headers = [(b"content-type", b"application/json"), (b"x-amzn-errortype", error.code.encode())]
    await send_answer(send, status=error.status, headers=headers, body=orjson.dumps(document))
