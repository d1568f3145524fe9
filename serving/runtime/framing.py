"""Which headers are looked at, and which of them make a request one that could be read in two ways."""

from __future__ import annotations

READ = frozenset(
    (
        b"accept",
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"expect",
        b"host",
        b"inference-header-content-length",
        b"transfer-encoding",
        b"x-amzn-sagemaker-custom-attributes",
        b"x-amzn-sagemaker-inference-id",
        b"x-amzn-sagemaker-session-id",
        b"x-amzn-sagemaker-target-model",
        b"x-request-id",
        b"x-streamhub-timeout-ms",
    )
)
LISTS = frozenset((b"accept", b"expect", b"transfer-encoding"))
"""Of these, what may be given in several lines (RFC 9110 §5.3)."""

Refusal = tuple[int, str]


def refused(  # noqa: PLR0911 - a rule a line
    headers: dict[bytes, bytes], *, version: str, upgrade: bool, max_body_bytes: int
) -> Refusal | None:
    """Say with which status and why a whole head is refused; lengths that contradict each other the parser refuses.

    Sources: RFC 9112 §6.1 (codings, and none in HTTP/1.0), RFC 9110 §10.1.1 (`Expect`).
    """
    length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    if version not in {"1.0", "1.1"}:
        return 505, "request: got another version of HTTP; allowed HTTP/1.1 and HTTP/1.0; use one of them"
    if coding is not None and version == "1.0":
        return 400, "transfer-encoding: got it in HTTP/1.0; allowed a content-length; say HTTP/1.1 or the length"
    if coding is not None and coding.lower() != b"chunked":
        return 501, "transfer-encoding: got a coding; allowed chunked alone; use content-encoding"
    if upgrade and (coding is not None or (length is not None and int(length))):
        return 501, "upgrade: got it with a body; allowed HTTP/1.1 as it is; leave upgrade out"
    if length is not None and int(length) > max_body_bytes:
        return 413, too_large(length.decode(), max_body_bytes)
    if headers.get(b"expect", b"100-continue").lower() != b"100-continue":
        return 417, "expect: got an unknown expectation; allowed 100-continue; leave it out"
    return None


def too_large(got: str, max_body_bytes: int) -> str:
    """Say that a body has too many bytes."""
    return f"body: got {got} bytes; allowed {max_body_bytes}; send fewer rows a request"
