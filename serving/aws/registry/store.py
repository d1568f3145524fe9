"""Small S3 objects with conditional writes, and large ones with their SHA-256: what a registry is made of."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from serving.errors import RegistryError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_MISSING = ("NoSuchKey", "404", "NotFound")
_LOST = ("PreconditionFailed", "412")
_RACED = ("ConditionalRequestConflict", "409")
_ATTEMPTS = 5
_CHUNK = 1 << 20
_JSON = "application/json"

MAX_PUT_BYTES = 5 * 10**9
"""One PutObject carries less than 5 GB (S3 quotas), and only then is its SHA-256 that of the whole object."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The bytes of an object and the ETag that a compare-and-set names."""

    data: bytes
    etag: str


class S3Objects:
    """One bucket. Every error is a RegistryError that names bucket and key."""

    def __init__(self, bucket: str, client: S3Client) -> None:
        self.bucket = bucket
        self._client = client

    def read(self, key: str) -> StoredObject | None:
        """Read an object whole, its checksum checked; None when there is none."""
        try:
            with self._named(key):
                answer = self._client.get_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
                return StoredObject(answer["Body"].read(), answer["ETag"])
        except _MissingError:
            return None

    def put_new(self, key: str, data: bytes) -> bool:
        """Write an object that must not exist yet; False when it does."""

        def put() -> None:
            self._client.put_object(Bucket=self.bucket, Key=key, Body=data, ContentType=_JSON, IfNoneMatch="*")

        return self._first(key, put)

    def replace(self, key: str, data: bytes, *, etag: str) -> bool:
        """Write an object that must still be the one with that ETag; False when it is another by now."""
        try:
            with self._named(key):
                self._client.put_object(Bucket=self.bucket, Key=key, Body=data, ContentType=_JSON, IfMatch=etag)
        except (_LostError, _RacedError, _MissingError):
            return False
        return True

    def upload_new(self, key: str, path: Path, *, sha256: str) -> bool:
        """Stream a file that S3 checks against its SHA-256 (lower-case hex); False when the object is there already."""

        def put() -> None:
            with path.open("rb") as body:
                self._client.put_object(
                    Bucket=self.bucket, Key=key, Body=body, ChecksumSHA256=_base64(sha256), IfNoneMatch="*"
                )

        return self._first(key, put)

    def content_of(self, key: str) -> tuple[int, str] | None:
        """Give size and SHA-256 (hex) of an object: as S3 checked it, or else of its bytes; None when there is none."""
        try:
            with self._named(key):
                head = self._client.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
                if checked := head.get("ChecksumSHA256"):
                    return head["ContentLength"], base64.b64decode(checked).hex()
                digest = hashlib.sha256()
                for chunk in self._client.get_object(Bucket=self.bucket, Key=key)["Body"].iter_chunks(_CHUNK):
                    digest.update(chunk)
                return head["ContentLength"], digest.hexdigest()
        except _MissingError:
            return None

    def keys(self, prefix: str) -> Iterator[str]:
        """List all keys below a prefix."""
        with self._named(prefix):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
                for entry in page.get("Contents", ()):
                    yield entry["Key"]

    def folders(self, prefix: str) -> Iterator[str]:
        """List the names one level below a prefix that ends with a slash."""
        with self._named(prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, Delimiter="/"
            )
            for page in pages:
                for entry in page.get("CommonPrefixes", ()):
                    yield entry["Prefix"][len(prefix) : -1]

    def _first(self, key: str, put: Callable[[], None]) -> bool:
        """Say whether this writer was the first; S3 answers two at the same moment with a request to ask again."""
        for _ in range(_ATTEMPTS):
            with suppress(_RacedError):
                try:
                    with self._named(key):
                        put()
                except _LostError:
                    return False
                return True
        return False

    @contextmanager
    def _named(self, key: str) -> Iterator[None]:
        place = f"s3://{self.bucket}/{key}"
        try:
            yield
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            for codes, kind in ((_MISSING, _MissingError), (_LOST, _LostError), (_RACED, _RacedError)):
                if code in codes:
                    raise kind(f"{place}: {code}") from None
            raise RegistryError(
                f"{place}: got {code} ({error.response.get('Error', {}).get('Message', '')}); "
                f"allowed a bucket this caller may read and write; check its name, the credentials and the region"
            ) from error
        except (BotoCoreError, OSError) as error:
            raise RegistryError(
                f"{place}: got no answer ({error}); check credentials, AWS_REGION, AWS_ENDPOINT_URL and the network"
            ) from error


class _MissingError(RegistryError):
    """No such object."""


class _LostError(RegistryError):
    """The condition of a write does not hold."""


class _RacedError(RegistryError):
    """Two conditional writes met; S3 asks to try again."""


def _base64(sha256: str) -> str:
    return base64.b64encode(bytes.fromhex(sha256)).decode()
