"""What SageMaker's own headers ask of a container, beside the body and its type.

Source: AWS's API reference, *InvokeEndpoint* (their limits), and *Use your own inference code with hosting services*.
`X-Amzn-SageMaker-Target-Variant`, `-Target-Container-Hostname` and `-Inference-Component` were obeyed before a request
arrives, so nobody looks at them here.
"""

from __future__ import annotations

from math import isfinite

_CUSTOM_CHARACTERS = 1024
_ID_CHARACTERS = 64
_FIRST, _LAST = 0x20, 0x7E


def refusal(headers: dict[bytes, bytes], *, several_models: bool) -> str:
    """Say what is wrong with them; empty: nothing."""
    custom = headers.get(b"x-amzn-sagemaker-custom-attributes", b"")
    if len(custom) > _CUSTOM_CHARACTERS or not _visible(custom):
        return (
            f"X-Amzn-SageMaker-Custom-Attributes: got {len(custom)} characters; allowed at most {_CUSTOM_CHARACTERS} "
            f"visible US-ASCII characters; shorten or encode them"
        )
    inference_id = headers.get(b"x-amzn-sagemaker-inference-id")
    if inference_id is not None and not (0 < len(inference_id) <= _ID_CHARACTERS and _visible(inference_id)):
        return (
            f"X-Amzn-SageMaker-Inference-Id: got {len(inference_id)} characters; allowed 1 to {_ID_CHARACTERS} visible "
            f"US-ASCII characters; shorten it"
        )
    if b"x-amzn-sagemaker-session-id" in headers:
        return (
            "X-Amzn-SageMaker-Session-Id: got a session; allowed none: models here keep no state between requests; "
            "leave the header out"
        )
    if b"x-amzn-sagemaker-target-model" in headers and not several_models:
        return (
            "X-Amzn-SageMaker-Target-Model: got a model; allowed on an endpoint of several models alone; "
            "leave the header out"
        )
    return ""


def echoed(headers: dict[bytes, bytes]) -> bytes:
    """Give the header lines that go back with an answer; custom attributes reach the client only if they do."""
    custom = headers.get(b"x-amzn-sagemaker-custom-attributes")
    return b"" if custom is None else b"x-amzn-sagemaker-custom-attributes: %s\r\n" % custom


def request_id(headers: dict[bytes, bytes]) -> bytes:
    """Give what the client calls its request, if it can be repeated in a header and in a log."""
    for name in (b"x-request-id", b"x-amzn-sagemaker-inference-id"):
        value = headers.get(name, b"")
        if 0 < len(value) <= 2 * _ID_CHARACTERS and _visible(value):
            return value
    return b""


def within_s(headers: dict[bytes, bytes], limit_s: float) -> float | str:
    """Give the time a request has: the limit, or less if the client says so; a text: what is wrong."""
    asked = headers.get(b"x-streamhub-timeout-ms")
    if asked is None:
        return limit_s
    try:
        asked_ms = float(asked)
    except ValueError:
        asked_ms = 0.0
    if isfinite(asked_ms) and asked_ms > 0:
        return min(limit_s, asked_ms / 1e3)
    return (
        f"X-StreamHub-Timeout-Ms: got {asked[:40].decode(errors='replace')!r}; "
        f"allowed a number above 0; leave it out for the model's own {limit_s * 1e3:g}"
    )


def _visible(value: bytes) -> bool:
    return not value or (min(value) >= _FIRST and max(value) <= _LAST)
