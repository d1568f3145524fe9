"""What SageMaker captured of an endpoint: JSON-lines objects in S3, read window by window, one object at a time.

`<prefix>/<endpoint>/<variant>/yyyy/mm/dd/hh/<file>.jsonl` (SageMaker guide, *model-monitor-data-capture*); a file's
hour is that of its first record, so records of a window may lie one folder before it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
from botocore.exceptions import BotoCoreError, ClientError

from serving.errors import InvalidRequestError, TelemetryError
from serving.protocol.codec import decode_request, decode_response
from serving.protocol.tensors import InferRequest, InferResponse
from serving.spec import Slot

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PREFIX = "capture"
MAX_OBJECT_BYTES = 256 << 20

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Capture:
    """One request and its answer."""

    inference_id: str
    at: datetime
    request: InferRequest
    response: InferResponse


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CaptureBatch:
    """What one object holds of a window; `unreadable` counts lines that are no capture of request and answer."""

    captures: tuple[Capture, ...]
    unreadable: int


class S3Captures:
    """Captured requests of one bucket."""

    def __init__(
        self, client: S3Client, *, bucket: str, prefix: str = PREFIX, max_object_bytes: int = MAX_OBJECT_BYTES
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._max_object_bytes = max_object_bytes

    def read(self, endpoint: str, slot: Slot, *, start: datetime, end: datetime) -> Iterator[CaptureBatch]:
        """Give what was captured from `start` until before `end`, object by object; nothing where nothing was.

        Raises:
            TelemetryError: the bucket cannot be read, or an object is larger than this may hold.

        """
        for key, size in self._objects(endpoint, slot, start=start, end=end):
            if size > self._max_object_bytes:
                raise TelemetryError(
                    f"capture s3://{self._bucket}/{key}: got {size} bytes; allowed {self._max_object_bytes}; lower "
                    f"[drift] capture_percent"
                )
            yield _batch(self._body(key), start=start, end=end)

    def _objects(self, endpoint: str, slot: Slot, *, start: datetime, end: datetime) -> Iterator[tuple[str, int]]:
        hour = start.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - _HOUR
        pages = self._client.get_paginator("list_objects_v2")
        while hour < end:
            folder = f"{self._prefix}/{endpoint}/{slot}/{hour:%Y/%m/%d/%H}/"
            try:
                found = [
                    (item["Key"], item["Size"])
                    for page in pages.paginate(Bucket=self._bucket, Prefix=folder)
                    for item in page.get("Contents", [])
                ]
            except (ClientError, BotoCoreError) as error:
                raise self._refusal(folder, error) from error
            yield from (row for row in found if row[0].endswith(".jsonl"))
            hour += _HOUR

    def _body(self, key: str) -> bytes:
        try:
            body: bytes = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except (ClientError, BotoCoreError) as error:
            raise self._refusal(key, error) from error
        return body

    def _refusal(self, key: str, error: Exception) -> TelemetryError:
        return TelemetryError(
            f"captures s3://{self._bucket}/{key}: got {error}; allowed a bucket that can be read; check "
            f"STREAMHUB_TELEMETRY_BUCKET, network and permissions"
        )


def _batch(body: bytes, *, start: datetime, end: datetime) -> CaptureBatch:
    captures: list[Capture] = []
    unreadable = 0
    for line in body.splitlines():
        if not line:
            continue
        try:
            at, document = _when(line)
            if start <= at < end:
                captures.append(_capture(document, at))
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, InvalidRequestError):
            # a record of an error answer, cut, or of another tool: counted, and shown in the report
            unreadable += 1
    return CaptureBatch(captures=tuple(captures), unreadable=unreadable)


def _when(line: bytes) -> tuple[datetime, dict[str, Any]]:
    document: dict[str, Any] = orjson.loads(line)
    return datetime.fromisoformat(document["eventMetadata"]["inferenceTime"]), document


def _capture(document: Mapping[str, Any], at: datetime) -> Capture:
    sides = document["captureData"]
    request, answer = sides["endpointInput"], sides["endpointOutput"]
    return Capture(
        inference_id=document["eventMetadata"].get("inferenceId", ""),
        at=at,
        request=decode_request(_data(request), content_type=request["observedContentType"]),
        response=decode_response(_data(answer), content_type=answer["observedContentType"]),
    )


def _data(side: Mapping[str, Any]) -> bytes:
    text: str = side["data"]
    return base64.b64decode(text, validate=True) if side["encoding"] == "BASE64" else text.encode()
