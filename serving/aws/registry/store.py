"""Small S3 objects with conditional writes, listings and locks; every error is one line that names bucket and key."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, ParamValidationError

from serving.errors import RegistryError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_MISSING = ("NoSuchKey", "404", "NotFound", "NoSuchUpload")
_LOST = ("PreconditionFailed", "412")
BUSY = frozenset({"SlowDown", "ServiceUnavailable", "503", "InternalError", "500", "RequestTimeout"})
"""What S3 answers when it has too much to do (S3 API Reference, error responses): nothing is wrong with the call."""
_RACED = ("ConditionalRequestConflict", "409")
_NO_LOCK = "ObjectLockConfigurationNotFoundError"
_ATTEMPTS = 5
_JSON = "application/json"


class MissingError(RegistryError):
    """No such object, or no such upload."""


class LostError(RegistryError):
    """The condition of a write does not hold."""


class RacedError(RegistryError):
    """Two conditional writes met; S3 asks to try again."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The bytes of an object and the ETag that a compare-and-set names."""

    data: bytes
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One object of a listing."""

    key: str
    size_bytes: int
    etag: str
    modified_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What S3 says of an object.

    `checksum` is S3's SHA-256 in base64: of the whole object, or `<of the parts' digests>-<parts>`; None where the
    writer asked for none. ETags are no content hashes under KMS or in parts, and are used for conditions alone.
    """

    size_bytes: int
    etag: str
    checksum: str | None
    locked_until: datetime | None


class Store:
    """One bucket."""

    def __init__(self, bucket: str, client: S3Client) -> None:
        self.bucket = bucket
        self.client = client

    def uri(self, key: str) -> str:
        """Give the S3 URI of a key."""
        return f"s3://{self.bucket}/{key}"

    def read(self, key: str) -> StoredObject | None:
        """Read an object whole, its checksum checked; None when there is none."""
        try:
            with self.named(key):
                answer = self.client.get_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
                return StoredObject(answer["Body"].read(), answer["ETag"])
        except MissingError:
            return None

    def head(self, key: str) -> Head | None:
        """Look at an object without its bytes; None when there is none."""
        try:
            with self.named(key):
                found = self.client.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
        except MissingError:
            return None
        return Head(
            size_bytes=found["ContentLength"],
            etag=found["ETag"],
            checksum=found.get("ChecksumSHA256"),
            locked_until=found.get("ObjectLockRetainUntilDate"),
        )

    def stream(self, key: str, *, chunk_bytes: int, start: int = 0, etag: str = "") -> Iterator[bytes]:
        """Read an object from a byte on, in chunks; `etag` refuses another object than the one that was begun."""
        with self.named(key):
            conditions: Any = {"Range": f"bytes={start}-"} if start else {}
            conditions |= {"IfMatch": etag} if etag else {}
            body = self.client.get_object(Bucket=self.bucket, Key=key, **conditions)["Body"]
            with body:
                yield from body.iter_chunks(chunk_bytes)

    def put_new(self, key: str, data: bytes) -> bool:
        """Write an object that must not exist yet; False when it does."""

        def put() -> None:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=data, ContentType=_JSON, IfNoneMatch="*")

        return self.first(key, put)

    def replace(self, key: str, data: bytes, *, etag: str) -> bool:
        """Write an object that must still be the one with that ETag; False when it is another by now."""
        try:
            with self.named(key):
                self.client.put_object(Bucket=self.bucket, Key=key, Body=data, ContentType=_JSON, IfMatch=etag)
        except (LostError, RacedError, MissingError):
            return False
        return True

    def delete(self, key: str) -> None:
        """Delete an object; in a versioned bucket this puts a delete marker over it."""
        with self.named(key):
            self.client.delete_object(Bucket=self.bucket, Key=key)

    def delete_exactly(self, key: str, *, etag: str) -> bool:
        """Delete an object that must still be the one with that ETag; False when it is another, or gone."""
        try:
            with self.named(key):
                self.client.delete_object(Bucket=self.bucket, Key=key, IfMatch=etag)
        except (LostError, RacedError, MissingError):
            return False
        return True

    def list(self, prefix: str) -> Iterator[Listed]:
        """List all objects below a prefix, in the order of their keys."""
        with self.named(prefix):
            for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
                for entry in page.get("Contents", ()):
                    yield Listed(
                        key=entry["Key"],
                        size_bytes=entry["Size"],
                        etag=entry["ETag"],
                        modified_at=entry["LastModified"],
                    )

    def keys(self, prefix: str) -> Iterator[str]:
        """List all keys below a prefix, in order."""
        for entry in self.list(prefix):
            yield entry.key

    def folders(self, prefix: str) -> Iterator[str]:
        """List the names one level below a prefix that ends with a slash."""
        with self.named(prefix):
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, Delimiter="/"
            )
            for page in pages:
                for entry in page.get("CommonPrefixes", ()):
                    yield entry["Prefix"][len(prefix) : -1]

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Drop a multipart upload and its parts; nothing when it is ended already."""
        with suppress(MissingError), self.named(key):
            self.client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload_id)

    def lock_mode(self) -> str | None:
        """Give the mode of the bucket's default retention, GOVERNANCE where it has none; None without Object Lock."""
        try:
            with self.named(""):
                found = self.client.get_object_lock_configuration(Bucket=self.bucket)["ObjectLockConfiguration"]
        except MissingError:
            return None
        return found.get("Rule", {}).get("DefaultRetention", {}).get("Mode", "GOVERNANCE")

    def retain(self, key: str, *, mode: str, until: datetime) -> None:
        """Lock the current version of an object until a date; S3 refuses to shorten what stands."""
        with self.named(key):
            self.client.put_object_retention(
                Bucket=self.bucket,
                Key=key,
                Retention={"Mode": "COMPLIANCE" if mode == "COMPLIANCE" else "GOVERNANCE", "RetainUntilDate": until},
            )

    def first(self, key: str, put: Callable[[], None]) -> bool:
        """Say whether this writer was the first; S3 answers two at the same moment with a request to ask again."""
        for _ in range(_ATTEMPTS):
            with suppress(RacedError):
                try:
                    with self.named(key):
                        put()
                except LostError:
                    return False
                return True
        return False

    @contextmanager
    def named(self, key: str) -> Iterator[None]:
        """Turn what S3 and the network answer into errors of the registry that name the key."""
        place = self.uri(key)
        try:
            yield
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            for codes, kind in (((*_MISSING, _NO_LOCK), MissingError), (_LOST, LostError), (_RACED, RacedError)):
                if code in codes:
                    raise kind(f"{place}: {code}") from None
            if code in BUSY:
                raise RegistryError(f"{place}: got {code}; allowed fewer requests a second; ask again later") from error
            raise RegistryError(
                f"{place}: got {code} ({error.response.get('Error', {}).get('Message', '')}); "
                f"allowed a bucket this caller may read and write; check its name, the credentials and the region"
            ) from error
        except ParamValidationError as error:
            raise RegistryError(
                f"{place}: got a name that S3 does not take ({_line(error)}); correct the bucket"
            ) from error
        except (BotoCoreError, HTTPClientError, OSError) as error:
            raise RegistryError(
                f"{place}: got no answer ({_line(error)}); check credentials, AWS_REGION, AWS_ENDPOINT_URL and the "
                f"network"
            ) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def base64_of(digest: bytes) -> str:
    """Give a digest as S3's checksum headers want it."""
    return base64.b64encode(digest).decode()
