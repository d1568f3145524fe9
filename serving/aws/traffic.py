"""The release record as the API reads it: kept for seconds, and the last known one when it cannot be read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from serving.errors import ReleaseError
from serving.prediction.types import Traffic
from serving.release.state import ReleaseRecord
from serving.spec import codec

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

REFRESH_AFTER_S = 2.0
"""With one second for the read itself, a record is at most 3 s old, and 5 s after one failed read (docs/api.md)."""

RETRY_AFTER_S = 1.0
CURRENT = "CURRENT"


def release_key(model: str) -> str:
    """Give the partition of a model's release record."""
    return f"RELEASE#{model}"


def traffic_of(record: ReleaseRecord) -> Traffic:
    """Give the traffic of a release; it counts as evidence only while the release is live."""
    return Traffic(
        production=record.production,
        challenger_share=record.share,
        release_id=record.release_id if record.live else "",
        stage_index=record.stage_index if record.live else 0,
        salt=record.salt,
    )


@dataclass(slots=True)
class _Known:
    traffic: Traffic | None = None
    refresh_at: float = -math.inf


class DynamoTrafficSource:
    """Reads `pk=RELEASE#<model>`, `sk=CURRENT`; one caller at a time refreshes while the others use what is known."""

    def __init__(self, client: DynamoDBClient, *, table: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._table = table
        self._monotonic = monotonic
        self._known: dict[str, _Known] = {}
        self._locks: dict[str, Lock] = {}

    def traffic(self, model: str) -> Traffic:
        """Give the model's traffic.

        Raises:
            ReleaseError: the record cannot be read now and never could.

        """
        known = self._known.setdefault(model, _Known())
        if known.traffic is not None and self._monotonic() < known.refresh_at:
            return known.traffic
        lock = self._locks.setdefault(model, Lock())
        if lock.acquire(blocking=known.traffic is None):
            try:
                # those who waited for a first read that failed do not each wait for one of their own
                if self._monotonic() >= known.refresh_at:
                    self._refresh(model, known)
            finally:
                lock.release()
        if known.traffic is None:
            raise ReleaseError(
                f"release record of {model}: got no answer of table {self._table}; allowed a table that can be read; "
                f"check STREAMHUB_STATE_TABLE, network and permissions"
            )
        return known.traffic

    def _refresh(self, model: str, known: _Known) -> None:
        try:
            known.traffic = self._read(model)
            known.refresh_at = self._monotonic() + REFRESH_AFTER_S
        except (BotoCoreError, ClientError, ValueError):
            known.refresh_at = self._monotonic() + RETRY_AFTER_S

    def _read(self, model: str) -> Traffic:
        answer = self._client.get_item(
            TableName=self._table, Key={"pk": {"S": release_key(model)}, "sk": {"S": CURRENT}}, ConsistentRead=True
        )
        item = answer.get("Item")
        if item is None:
            return Traffic.without_release(model)
        document = item.get("document", {}).get("S", "")
        return traffic_of(codec.from_json(document.encode(), ReleaseRecord))
