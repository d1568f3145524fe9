"""Drift results in S3: `drift/<model>/<slot>/<window end>/{statistics,constraint_violations,report}.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import orjson
from botocore.exceptions import BotoCoreError, ClientError

from serving.errors import TelemetryError
from serving.spec import Slot, codec
from serving.telemetry.drift import DriftReport, Window

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PREFIX = "drift"
_REPORT = "report.json"


class S3DriftReports:
    """The reports of one telemetry bucket."""

    def __init__(self, client: S3Client, *, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def write(self, report: DriftReport, documents: Mapping[str, object]) -> str:
        """Write the documents and then the report, and give where; the same window again replaces them.

        Raises:
            TelemetryError: the bucket cannot be written.

        """
        folder = _folder(report.window)
        for name, document in documents.items():
            self._put(f"{folder}{name}", orjson.dumps(document, option=orjson.OPT_INDENT_2))
        self._put(f"{folder}{_REPORT}", codec.to_json(report))
        return f"s3://{self._bucket}/{folder}"

    def between(self, model: str, slot: Slot, *, after: datetime, before: datetime) -> Sequence[DriftReport]:
        """Give the reports of windows that ended after one time and before another, oldest first.

        Raises:
            TelemetryError: the bucket cannot be read, or a report is none.

        """
        root = _root(model, slot)
        keys = self._keys(root, start_after=f"{root}{_stamp(after)}/~")
        return [self._read(key) for key in keys if key < f"{root}{_stamp(before)}/"]

    def newest(self, model: str, slot: Slot) -> DriftReport | None:
        """Give the report whose window ended last, or None before the first one.

        Raises:
            TelemetryError: the bucket cannot be read, or the report is none.

        """
        root = _root(model, slot)
        key = max(self._keys(root, start_after=root), default=None)
        return self._read(key) if key is not None else None

    def _keys(self, root: str, *, start_after: str) -> list[str]:
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=root, StartAfter=start_after
            )
            found = [item["Key"] for page in pages for item in page.get("Contents", [])]
        except (ClientError, BotoCoreError) as error:
            raise self._refusal(root, error) from error
        return [key for key in found if key.endswith(f"/{_REPORT}")]

    def _read(self, key: str) -> DriftReport:
        try:
            return codec.from_json(self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read(), DriftReport)
        except (ClientError, BotoCoreError, ValueError) as error:
            raise self._refusal(key, error) from error

    def _put(self, key: str, body: bytes) -> None:
        try:
            self._client.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType="application/json")
        except (ClientError, BotoCoreError) as error:
            raise self._refusal(key, error) from error

    def _refusal(self, key: str, error: Exception) -> TelemetryError:
        return TelemetryError(
            f"drift results s3://{self._bucket}/{key}: got {error}; allowed a bucket that can be read and written, and "
            f"reports of this version; check STREAMHUB_TELEMETRY_BUCKET, network and permissions"
        )


def _root(model: str, slot: Slot) -> str:
    return f"{PREFIX}/{model}/{slot}/"


def _folder(window: Window) -> str:
    return f"{_root(window.model, window.slot)}{_stamp(window.end)}/"


def _stamp(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
