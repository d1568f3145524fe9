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
        root = f"{PREFIX}/{model}/{slot}/"
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=root, StartAfter=f"{root}{_stamp(after)}/~"
            )
            keys = [
                item["Key"]
                for page in pages
                for item in page.get("Contents", [])
                if item["Key"].endswith(f"/{_REPORT}") and item["Key"] < f"{root}{_stamp(before)}/"
            ]
        except (ClientError, BotoCoreError) as error:
            raise self._refusal(root, error) from error
        return [self._read(key) for key in keys]

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


def _folder(window: Window) -> str:
    return f"{PREFIX}/{window.model}/{window.slot}/{_stamp(window.end)}/"


def _stamp(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
