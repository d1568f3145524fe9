"""Exposures and outcomes into counters of a DynamoDB table, and the counters back as evidence.

A batch of exposures is one transaction with a marker, an outcome likewise: what is delivered twice counts once.
Items (`pk`, `sk`): `EVIDENCE#<model>#<release>#<stage>` with `<slot>#<unit bucket>` (impressions, clicks, errors,
watch_s) and `<slot>#LATENCY#<shard>` (`b<bucket>` of the histogram); markers `BATCH#<id>` and `OUTCOME#<prediction>`.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from serving.errors import TelemetryError
from serving.prediction import ids
from serving.prediction.types import Exposure, Outcome
from serving.release.state import ReleaseRecord
from serving.spec import Slot
from serving.telemetry.evidence import UNIT_BUCKETS, Evidence, StageEvidence
from serving.telemetry.histogram import Histogram, bucket_of

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Update = dict[str, Any]
Counts = dict[str, float]

MAX_ITEMS = 98
"""Counters a transaction: DynamoDB takes 100 items; one is the marker, one the latency histogram."""

MARKER_DAYS = 30
LATENCY = "LATENCY"
LATENCY_SHARDS = 16
"""Every batch of a slot counts latencies: in one item, writers would wait for each other's transactions."""

_ATTEMPTS = 6
_FIRST_WAIT_S = 0.02
_DAY_S = 86_400
_OUTCOME_COUNTERS = {"click": "clicks", "watch": "watch_s"}


def evidence_key(model: str, release_id: str, stage_index: int) -> str:
    """Give the partition of one stage's counters."""
    return f"EVIDENCE#{model}#{release_id}#{stage_index}"


class DynamoRecordSink:
    """Where exposures and outcomes go."""

    def __init__(self, client: DynamoDBClient, *, table: str, now_s: Callable[[], float] = time.time) -> None:
        self._client = client
        self._table = table
        self._now_s = now_s

    def exposures(self, exposures: Sequence[Exposure]) -> None:
        """Count a batch; the same batch again counts nothing.

        Raises:
            TelemetryError: the table cannot be written; the same batch may be sent again.

        """
        counted = [row for row in exposures if row.assignment.release_id and row.assignment.keyed]
        for (partition, slot), group in groupby(sorted(counted, key=_place), key=lambda row: _place(row)[:2]):
            for chunk in _chunks(list(group)):
                batch_id = _batch_id(chunk)
                latency_key = _latency_key(slot, int(batch_id, 16) % LATENCY_SHARDS)
                updates = self._counter_updates(partition, slot, chunk, latency_key=latency_key)
                self._write_once(f"BATCH#{batch_id}", "EXPOSURES", {}, updates)

    def outcome(self, outcome: Outcome) -> bool:
        """Count an outcome; False when this event of this prediction was there already.

        Raises:
            InvalidRequestError: the prediction id is none.
            TelemetryError: the table cannot be written; the same outcome may be sent again.

        """
        ref = ids.parse(outcome.prediction_id)
        put = ref.assignment
        counter = _OUTCOME_COUNTERS.get(outcome.event)
        updates = []
        if counter is not None and put.release_id and put.keyed:
            partition = evidence_key(ref.model, put.release_id, put.stage_index)
            updates.append(self._add(partition, _counter_key(put.slot, put.unit_bucket), {counter: outcome.value}))
        kept = {"value": {"N": repr(outcome.value)}, "occurred_at": {"S": outcome.occurred_at.isoformat()}}
        marker = f"OUTCOME#{outcome.prediction_id}"
        return self._write_once(marker, outcome.event, kept, updates)

    def _counter_updates(
        self, partition: str, slot: Slot, chunk: Sequence[Exposure], *, latency_key: str
    ) -> list[Update]:
        seen = Counter(row.assignment.unit_bucket for row in chunk)
        errors = Counter(row.assignment.unit_bucket for row in chunk if row.failed)
        updates = []
        for unit_bucket, count in sorted(seen.items()):
            counts: Counts = {"impressions": count}
            if errors[unit_bucket]:
                counts["errors"] = errors[unit_bucket]
            updates.append(self._add(partition, _counter_key(slot, unit_bucket), counts))
        bins = Counter(f"b{bucket_of(row.latency_ms)}" for row in chunk)
        return [*updates, self._add(partition, latency_key, dict(bins))]

    def _add(self, partition: str, sort: str, counts: Counts) -> Update:
        names = {f"#n{index}": name for index, name in enumerate(counts)}
        values = {f":v{index}": {"N": repr(value)} for index, value in enumerate(counts.values())}
        pairs = ", ".join(f"#n{index} :v{index}" for index in range(len(counts)))
        return {
            "Update": {
                "TableName": self._table,
                "Key": {"pk": {"S": partition}, "sk": {"S": sort}},
                "UpdateExpression": f"ADD {pairs}",
                "ExpressionAttributeNames": names,
                "ExpressionAttributeValues": values,
            }
        }

    def _write_once(self, partition: str, sort: str, kept: dict[str, Any], updates: list[Update]) -> bool:
        # from now on, not from the client's own time: an old one would let a redelivery count again
        expires_at = int(self._now_s()) + MARKER_DAYS * _DAY_S
        marker = {
            "Put": {
                "TableName": self._table,
                "Item": {
                    "pk": {"S": partition},
                    "sk": {"S": sort},
                    "expires_at": {"N": str(expires_at)},
                    **kept,
                },
                "ConditionExpression": "attribute_not_exists(pk)",
            }
        }
        for attempt in range(_ATTEMPTS):
            try:
                self._client.transact_write_items(TransactItems=[marker, *updates])  # type: ignore[list-item]
            except ClientError as error:
                if _already_there(error):
                    return False
                if not _conflicts(error) or attempt == _ATTEMPTS - 1:
                    raise _refusal(self._table, error) from error
                # full jitter: writers that met once do not meet again at the same time
                time.sleep(random.uniform(0, _FIRST_WAIT_S * 2**attempt))  # noqa: S311 - spreads writers, no secret
            except BotoCoreError as error:
                raise _refusal(self._table, error) from error
            else:
                return True
        return False


class EvidenceStore:
    """Reads the counters of a release's stage."""

    def __init__(self, client: DynamoDBClient, *, table: str) -> None:
        self._client = client
        self._table = table

    def read(self, record: ReleaseRecord) -> StageEvidence:
        """Give what both slots saw in the record's present stage.

        Raises:
            TelemetryError: the table cannot be read.

        """
        items = self._items(evidence_key(record.model, record.release_id, record.stage_index))
        return StageEvidence(
            control=_evidence(items, record.production), challenger=_evidence(items, record.challenger)
        )

    def _items(self, partition: str) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        try:
            pages = self._client.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": {"S": partition}},
                ConsistentRead=True,
            )
            for page in pages:
                for item in page["Items"]:
                    found[item["sk"]["S"]] = {name: float(value["N"]) for name, value in item.items() if "N" in value}
        except (ClientError, BotoCoreError) as error:
            raise _refusal(self._table, error) from error
        return found


def _evidence(items: dict[str, dict[str, float]], slot: Slot) -> Evidence:
    rows = [items.get(_counter_key(slot, bucket), {}) for bucket in range(UNIT_BUCKETS)]
    latency: Counter[int] = Counter()
    for shard in range(LATENCY_SHARDS):
        latency.update({int(name[1:]): int(count) for name, count in items.get(_latency_key(slot, shard), {}).items()})
    return Evidence(
        impressions=tuple(int(row.get("impressions", 0)) for row in rows),
        clicks=tuple(int(row.get("clicks", 0)) for row in rows),
        errors=tuple(int(row.get("errors", 0)) for row in rows),
        watch_s=tuple(row.get("watch_s", 0.0) for row in rows),
        latency=Histogram.from_counts(latency),
    )


def _counter_key(slot: Slot, unit_bucket: int) -> str:
    return f"{slot}#{unit_bucket:03d}"


def _latency_key(slot: Slot, shard: int) -> str:
    return f"{slot}#{LATENCY}#{shard:02d}"


def _place(row: Exposure) -> tuple[str, Slot, int, str]:
    put = row.assignment
    return evidence_key(row.model, put.release_id, put.stage_index), put.slot, put.unit_bucket, row.prediction_id


def _chunks(rows: Sequence[Exposure]) -> Iterator[Sequence[Exposure]]:
    """Split sorted rows so that one transaction holds them: few enough unit buckets and latency buckets."""
    start = 0
    units: set[int] = set()
    bins: set[int] = set()
    for index, row in enumerate(rows):
        units.add(row.assignment.unit_bucket)
        bins.add(bucket_of(row.latency_ms))
        if len(units) > MAX_ITEMS or len(bins) > MAX_ITEMS:
            yield rows[start:index]
            start, units, bins = index, {row.assignment.unit_bucket}, {bucket_of(row.latency_ms)}
    yield rows[start:]


def _batch_id(chunk: Sequence[Exposure]) -> str:
    digest = blake2b(digest_size=16)
    for row in chunk:
        digest.update(row.prediction_id.encode() + b"\n")
    return digest.hexdigest()


def _reasons(error: ClientError) -> list[str]:
    reasons: Any = error.response.get("CancellationReasons", ())
    return [reason.get("Code", "") for reason in reasons]


def _already_there(error: ClientError) -> bool:
    return _reasons(error)[:1] == ["ConditionalCheckFailed"]


def _conflicts(error: ClientError) -> bool:
    code = error.response.get("Error", {}).get("Code", "")
    return code == "TransactionInProgressException" or "TransactionConflict" in _reasons(error)


def _refusal(table: str, error: Exception) -> TelemetryError:
    return TelemetryError(
        f"table {table}: got {error}; allowed a table that can be read and written; "
        f"check STREAMHUB_STATE_TABLE, network and permissions"
    )
