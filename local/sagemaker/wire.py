"""How the runtime API speaks on the wire: headers in, refusals out."""

from __future__ import annotations

import orjson

from local.aws_json import AwsError, Headers, Json, Scope, Send, send_answer


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


async def refuse(send: Send, error: AwsError) -> None:
    """Answer an error as the runtime API does."""
    document: Json = {"Message": str(error)}
    if isinstance(error, ModelError):
        document |= {
            "OriginalStatusCode": error.original_status,
            "OriginalMessage": error.original,
            "LogStreamArn": error.log_arn,
        }
    headers: Headers = [(b"content-type", b"application/json"), (b"x-amzn-errortype", error.code.encode())]
    await send_answer(send, status=error.status, headers=headers, body=orjson.dumps(document))
