"""Frames of `application/vnd.amazon.eventstream`: what InvokeEndpointWithResponseStream answers; pure.

Source: Smithy, *Amazon Event Stream* specification: lengths and CRC32 of the prelude, headers, payload, CRC32 of all.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from zlib import crc32

import orjson

CONTENT_TYPE = b"application/vnd.amazon.eventstream"
_STRING = 7
_PRELUDE = struct.Struct(">II")
_CRC = struct.Struct(">I")
_OUTSIDE_BYTES = _PRELUDE.size + 2 * _CRC.size


def payload_part(data: bytes) -> bytes:
    """Give the frame of one part of a container's answer."""
    return frame(
        {":message-type": "event", ":event-type": "PayloadPart", ":content-type": "application/octet-stream"}, data
    )


def stream_error(name: str, document: Mapping[str, str]) -> bytes:
    """Give the frame of an error that ends a stream: ModelStreamError or InternalStreamFailure."""
    headers = {":message-type": "exception", ":exception-type": name, ":content-type": "application/json"}
    return frame(headers, orjson.dumps(document))


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Give one message; names and values are strings of at most 255 and 65,535 bytes."""
    encoded = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    prelude = _PRELUDE.pack(_OUTSIDE_BYTES + len(encoded) + len(payload), len(encoded))
    start = b"".join((prelude, _CRC.pack(crc32(prelude)), encoded, payload))
    return start + _CRC.pack(crc32(start))


def _header(name: bytes, value: bytes) -> bytes:
    return b"".join((bytes([len(name)]), name, bytes([_STRING]), len(value).to_bytes(2, "big"), value))
