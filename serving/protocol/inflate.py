"""Compressed bodies, read no further than a body may be."""

from __future__ import annotations

import zlib

from serving.errors import InvalidRequestError

CODINGS = ("gzip", "deflate")
_WINDOW = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class TooLargeError(Exception):
    """There is more in it than may be."""


def inflate(body: bytes, coding: str, *, max_bytes: int) -> bytes:
    """Decompress a body of one of `CODINGS` (RFC 1952; RFC 1950, which HTTP calls deflate).

    Raises:
        InvalidRequestError: it is cut short, damaged or has something behind it.
        TooLargeError: it holds more than `max_bytes`.

    """
    inflater = zlib.decompressobj(_WINDOW[coding])
    try:
        plain = inflater.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise _refused(coding, str(error)) from None
    if len(plain) > max_bytes:
        raise TooLargeError
    if not inflater.eof or inflater.unused_data:
        raise _refused(coding, "cut short" if not inflater.eof else "bytes behind its end")
    return plain


def _refused(coding: str, got: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"body: got no {coding} ({got}); allowed one whole {coding} stream; send it as its content-encoding says"
    )
