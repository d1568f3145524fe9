"""Release records in DynamoDB, one immutable audit object a transition in S3.

Items: `pk=RELEASE#<model>`, `sk=CURRENT` (`version` for compare-and-set, `document`) and `sk=AUDIT#<version>`, written
in one transaction. The object follows; when its writer dies first, the next tick writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from serving.aws.traffic import CURRENT, release_key
from serving.errors import ReleaseError, StaleWriteError
from serving.release.audit import AuditEntry
from serving.release.state import ReleaseRecord
from serving.spec import codec

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

_AUDIT = "AUDIT#"
_LOST = {"ConditionalCheckFailed", "TransactionConflict"}
_NO_OBJECT = {"404", "NoSuchKey", "NotFound"}
_THERE_ALREADY = {"PreconditionFailed", "412"}
_RACED = {"ConditionalRequestConflict", "409"}
_BUSY = {"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "SlowDown", "503"}
_ATTEMPTS = 5


class DynamoReleaseStore:
    """The table of release records."""

    def __init__(self, client: DynamoDBClient, *, table: str) -> None:
        self._client = client
        self._table = table

    def get(self, model: str) -> ReleaseRecord | None:
        """Read the record as it is now; None before the first release.

        Raises:
            ReleaseError: the table cannot be read, or the record is none.

        """
        return self._read(model, CURRENT, ReleaseRecord)

    def entry(self, model: str, version: int) -> AuditEntry | None:
        """Read what led to one version of the record.

        Raises:
            ReleaseError: the table cannot be read, or the entry is none.

        """
        return self._read(model, _audit_key(version), AuditEntry)

    def history(self, model: str, *, limit: int) -> Sequence[AuditEntry]:
        """Read the newest entries, newest first.

        Raises:
            ReleaseError: the table cannot be read, or an entry is none.

        """
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk AND begins_with(sk, :audit)",
            ExpressionAttributeValues={":pk": {"S": release_key(model)}, ":audit": {"S": _AUDIT}},
            ConsistentRead=True,
            ScanIndexForward=False,
            PaginationConfig={"MaxItems": limit},
        )
        try:
            items = [item for page in pages for item in page["Items"]]
        except (ClientError, BotoCoreError) as error:
            raise _refusal(f"table {self._table}", error) from error
        return [self._decode(model, item, AuditEntry) for item in items]

    def put(self, entry: AuditEntry, *, expected_version: int) -> None:
        """Write record and entry together, if the stored version is still the expected one (0: there is none).

        Raises:
            StaleWriteError: another writer came first; nothing is written.
            ReleaseError: the table cannot be written.

        """
        record = entry.record
        current = self._put(record.model, CURRENT, {"version": {"N": str(record.version)}, "document": _text(record)})
        audit = self._put(record.model, _audit_key(record.version), {"document": _text(entry)})
        absent = {"ConditionExpression": "attribute_not_exists(pk)"}
        writes: Any = [
            {"Put": {**current, **(_unchanged_since(expected_version) if expected_version else absent)}},
            {"Put": {**audit, **absent}},
        ]
        try:
            self._client.transact_write_items(TransactItems=writes)
        except ClientError as error:
            if _reasons(error) & _LOST:
                raise StaleWriteError(
                    f"release {record.release_id}: got version {expected_version} of the record as the newest; "
                    f"allowed the stored one; another writer moved it first: look at streamhub release status "
                    f"{record.model} and ask again"
                ) from error
            raise _refusal(f"table {self._table}", error) from error
        except BotoCoreError as error:
            raise _refusal(f"table {self._table}", error) from error

    def _put(self, model: str, sort: str, values: dict[str, Any]) -> dict[str, Any]:
        return {"TableName": self._table, "Item": {"pk": {"S": release_key(model)}, "sk": {"S": sort}, **values}}

    def _read(self, model: str, sort: str, kind: type[T]) -> T | None:
        try:
            answer = self._client.get_item(
                TableName=self._table, Key={"pk": {"S": release_key(model)}, "sk": {"S": sort}}, ConsistentRead=True
            )
        except (ClientError, BotoCoreError) as error:
            raise _refusal(f"table {self._table}", error) from error
        item = answer.get("Item")
        return self._decode(model, item, kind) if item is not None else None

    def _decode(self, model: str, item: Any, kind: type[T]) -> T:  # noqa: ANN401 - an item of the stubs' own union
        try:
            return codec.from_json(item["document"]["S"].encode(), kind)
        except (KeyError, ValueError) as error:
            raise ReleaseError(
                f"release record of {model}, {item['sk']['S']}: got {error}; allowed what this version of StreamHub "
                f"writes; deploy the version that wrote it, or repair the item"
            ) from error


class S3AuditLog:
    """`audit/<model>/<release>/<version>.json` in the telemetry bucket, each written once."""

    def __init__(self, client: S3Client, *, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def has(self, record: ReleaseRecord) -> bool:
        """Say whether the transition to this record is there.

        Raises:
            ReleaseError: the bucket cannot be read.

        """
        try:
            self._client.head_object(Bucket=self._bucket, Key=_object_key(record))
        except ClientError as error:
            if _code(error) in _NO_OBJECT:
                return False
            raise _refusal(f"bucket {self._bucket}", error) from error
        except BotoCoreError as error:
            raise _refusal(f"bucket {self._bucket}", error) from error
        return True

    def write(self, entry: AuditEntry) -> None:
        """Write it once; when it is there already, it stays as it is.

        S3 answers two writers at the same moment with a request to ask again, and may have kept neither's object.

        Raises:
            ReleaseError: the bucket cannot be written.

        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._put(entry)
            except ClientError as error:
                if _code(error) in _RACED and attempt < _ATTEMPTS:
                    continue
                if _code(error) not in _THERE_ALREADY:
                    raise _refusal(f"bucket {self._bucket}", error) from error
            except BotoCoreError as error:
                raise _refusal(f"bucket {self._bucket}", error) from error
            return

    def _put(self, entry: AuditEntry) -> None:
        self._client.put_object(
            Bucket=self._bucket,
            Key=_object_key(entry.record),
            Body=codec.to_json(entry),
            ContentType="application/json",
            IfNoneMatch="*",
        )


def _unchanged_since(version: int) -> dict[str, Any]:
    return {
        "ConditionExpression": "#version = :expected",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":expected": {"N": str(version)}},
    }


def _text(value: object) -> dict[str, str]:
    return {"S": codec.to_json(value).decode()}


def _audit_key(version: int) -> str:
    return f"{_AUDIT}{version:010d}"


def _object_key(record: ReleaseRecord) -> str:
    return f"audit/{record.model}/{record.release_id}/{record.version}.json"


def _code(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


def _reasons(error: ClientError) -> set[str]:
    reasons: Any = error.response.get("CancellationReasons", ())
    return {reason.get("Code", "") for reason in reasons}


def _refusal(what: str, error: Exception) -> ReleaseError:
    if isinstance(error, ClientError) and _code(error) in _BUSY:
        return ReleaseError(f"{what}: got {_code(error)}; allowed fewer requests a second; ask again later")
    return ReleaseError(
        f"{what}: got {error}; allowed one that can be read and written; check the STREAMHUB_ variables, network and "
        f"permissions"
    )
