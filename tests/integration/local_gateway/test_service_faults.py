"""Faults of S3 and DynamoDB, as plain clients meet them, and what the product does then."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.faults import Faults, make
from serving.aws.registry import S3ModelRegistry
from serving.aws.releases import DynamoReleaseStore, S3AuditLog
from serving.errors import RegistryError, ReleaseError
from serving.release.audit import AuditEntry
from serving.release.policy import policy_for
from serving.release.transitions import start
from serving.spec import ReleaseSpec
from tests.fakes.registry import TRANSFER, packed_archive, read_manifest


@pytest.fixture(name="faults")
def faults_fixture(aws: Any) -> Iterator[Faults]:
    faults: Faults = aws.faults
    yield faults
    for fault in faults.all():
        faults.remove(fault.name)


@pytest.fixture(name="bucket")
def bucket_fixture(aws: Any) -> str:
    name = f"faulty-{uuid.uuid4().hex[:12]}"
    aws.client("s3").create_bucket(Bucket=name)
    return name


@pytest.fixture(name="table")
def table_fixture(aws: Any) -> str:
    name = f"faulty-{uuid.uuid4().hex[:12]}"
    keys = {"pk": "HASH", "sk": "RANGE"}
    aws.client("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
    )
    return name


def answer(call: Any, **parameters: Any) -> tuple[str, int]:
    try:
        done = call(**parameters)
    except ClientError as error:
        return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
    return "OK", done["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("s3-412", ("PreconditionFailed", 412)),
        ("s3-409", ("ConditionalRequestConflict", 409)),
        ("s3-503", ("SlowDown", 503)),
    ],
)
def test_a_conditional_write_meets_the_fault_of_its_bucket_prefix_and_operation(
    aws: Any, faults: Faults, bucket: str, *, kind: str, refused: tuple[str, int]
) -> None:
    put = aws.client("s3").put_object
    faults.add(make(kind, bucket=bucket, prefix="models/", operation="PutObject", count=2))
    asked = {"Bucket": bucket, "Body": b"x", "IfNoneMatch": "*"}
    assert answer(put, Key="other/1", **asked) == ("OK", 200)
    assert answer(aws.client("s3").head_object, Bucket=bucket, Key="other/1") == ("OK", 200)
    assert answer(put, Key="models/1", **asked) == refused
    assert answer(put, Key="models/1", **asked) == refused
    assert answer(put, Key="models/1", **asked) == ("OK", 200), "two calls, then it is gone"
    assert faults.all() == ()


@pytest.mark.parametrize("kind", ["s3-412", "s3-409"])
def test_a_write_without_a_condition_has_none_to_fail(aws: Any, faults: Faults, bucket: str, kind: str) -> None:
    faults.add(make(kind))
    assert answer(aws.client("s3").put_object, Bucket=bucket, Key="k", Body=b"x") == ("OK", 200)
    assert answer(aws.client("s3").get_object, Bucket=bucket, Key="k") == ("OK", 200)


def test_a_share_of_the_calls_meets_a_fault(aws: Any, faults: Faults, bucket: str) -> None:
    faults.add(make("s3-503", bucket=bucket, share=0.5))
    client = aws.client("s3")
    slowed = sum(answer(client.head_bucket, Bucket=bucket) != ("OK", 200) for _ in range(200))
    assert 60 <= slowed <= 140, "beyond 5.6 standard deviations"


def test_a_throttled_table_refuses_and_another_does_not(aws: Any, faults: Faults, table: str) -> None:
    client = aws.client("dynamodb")
    item = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    faults.add(make("dynamodb-throttle", table=table, operation="PutItem"))
    assert answer(client.put_item, TableName=table, Item=item) == ("ProvisionedThroughputExceededException", 400)
    assert answer(client.get_item, TableName=table, Key=item) == ("OK", 200)
    faults.add(make("dynamodb-throttle", table="another"))
    faults.remove(f"dynamodb-throttle:{table}")
    assert answer(client.put_item, TableName=table, Item=item) == ("OK", 200)
    faults.add(make("dynamodb-throttle", table=table))
    write = [{"Put": {"TableName": table, "Item": item}}]
    assert answer(client.transact_write_items, TransactItems=write)[0] == "ProvisionedThroughputExceededException"
    batch = {table: [{"PutRequest": {"Item": item}}]}
    assert answer(client.batch_write_item, RequestItems=batch)[0] == "ProvisionedThroughputExceededException"


def registry(aws: Any, bucket: str, *, attempts: int) -> S3ModelRegistry:
    client = aws.client("s3", attempts=attempts)
    return S3ModelRegistry(bucket, client, clock=lambda: datetime.now(UTC), transfer=TRANSFER)


@pytest.fixture(name="package", scope="module")
def package_fixture(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return packed_archive(tmp_path_factory.mktemp("package"), "ranker", "1.0.0", b"weights" * 20_000)


def test_a_push_goes_through_what_passes(aws: Any, faults: Faults, bucket: str, package: tuple[Path, Path]) -> None:
    path, manifest = package[0], read_manifest(package[1])
    faults.add(make("s3-503", bucket=bucket, count=2))
    faults.add(make("s3-409", bucket=bucket, count=2))
    pushed = registry(aws, bucket, attempts=4).push(path, manifest, actor="ada")
    assert pushed.version == "1.0.0"
    assert faults.all() == ()
    assert aws.client("s3").head_object(Bucket=bucket, Key=pushed.s3_uri.removeprefix(f"s3://{bucket}/"))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("s3-503", "got (503|SlowDown); allowed fewer requests a second; ask again later"),
        ("s3-409", "uploads that others ended; push it again"),
        ("s3-412", "another writer is at it; push it again"),
    ],
)
def test_a_push_says_why_it_cannot_and_the_next_one_ends_it(
    aws: Any, faults: Faults, bucket: str, package: tuple[Path, Path], *, kind: str, said: str
) -> None:
    path, manifest, store = package[0], read_manifest(package[1]), registry(aws, bucket, attempts=1)
    faults.add(make(kind, bucket=bucket, prefix="models/ranker/blobs/"))
    with pytest.raises(RegistryError, match=said):
        store.push(path, manifest, actor="ada")
    assert list(store.versions("ranker")) == []
    faults.remove(f"{kind}:{bucket}")
    assert store.push(path, manifest, actor="ada").version == "1.0.0"


def entry() -> AuditEntry:
    record = start(
        model="ranker",
        release_id="3.0.0-20260105T000000Z",
        policy="spec",
        production="a",
        versions={"a": "2.0.0", "b": "3.0.0"},
        weights={"a": 1.0, "b": 0.0},
        instances=1,
        previous_version=0,
        salt="salt",
        actor="ada",
        now=datetime(2026, 1, 5, tzinfo=UTC),
    )
    return AuditEntry(before=None, record=record, policy=policy_for(ReleaseSpec()))


def test_an_audit_object_is_written_behind_a_conflict_and_not_taken_for_written(
    aws: Any, faults: Faults, bucket: str
) -> None:
    log, first = S3AuditLog(aws.client("s3"), bucket=bucket), entry()
    faults.add(make("s3-409", bucket=bucket))
    with pytest.raises(ReleaseError, match="ConditionalRequestConflict"):
        log.write(first)
    assert log.has(first.record) is False
    faults.add(make("s3-409", bucket=bucket, count=2))
    log.write(first)
    assert log.has(first.record) is True


def test_a_throttled_record_is_as_before_and_can_be_moved_later(aws: Any, faults: Faults, table: str) -> None:
    store, first = DynamoReleaseStore(aws.client("dynamodb"), table=table), entry()
    faults.add(make("dynamodb-throttle", table=table))
    with pytest.raises(ReleaseError, match="ProvisionedThroughputExceededException; allowed fewer requests"):
        store.put(first, expected_version=0)
    faults.remove(f"dynamodb-throttle:{table}")
    assert store.get("ranker") is None
    faults.add(make("dynamodb-throttle", table=table, count=1))
    DynamoReleaseStore(aws.client("dynamodb", attempts=2), table=table).put(first, expected_version=0)
    assert store.get("ranker") == first.record
