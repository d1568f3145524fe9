"""Where an object lies in S3."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A bucket and a key in it."""

    bucket: str
    key: str


def place_of(uri: str) -> Place:
    """Give the place of an S3 URI, by no rules of URLs: a key may hold `?`, `#` and `[` (S3 guide, *object-keys*)."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return Place(bucket, key)
