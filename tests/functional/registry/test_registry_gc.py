"""Garbage collection: what goes, what stays, and every way in which it can meet a push."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from serving.aws.registry import S3ModelRegistry
from serving.aws.registry.claims import CLAIM_LIFE, CONDEMNED_LIFE
from serving.errors import RegistryError
from serving.spec.manifest import PackageManifest
from tests.fakes.registry import packed_archive, packed_prefix, read_manifest

BUCKET = "streamhub-dev-registry-123456789012"
GRACE = timedelta(days=14)


class Later:
    """The true time, and then some: what S3 wrote ages as the clock is moved."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture(name="clock")
def clock_fixture() -> Later:
    return Later()


@pytest.fixture(name="setting", params=["archive, versioned bucket", "prefix, plain bucket"])
def setting_fixture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(name="s3")
def s3_fixture(setting: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "testing")
    for key in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(key, raising=False)
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        if "versioned" in setting:
            client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        yield client


@pytest.fixture(name="registry")
def registry_fixture(s3: Any, clock: Later) -> S3ModelRegistry:
    return S3ModelRegistry(BUCKET, s3, clock=clock)


@pytest.fixture(name="other")
def other_fixture(s3: Any, clock: Later) -> S3ModelRegistry:
    """Give a second process: its own client, which no hook of the first one sees."""
    del s3
    return S3ModelRegistry(BUCKET, boto3.client("s3", region_name="us-east-1"), clock=clock)


Package = tuple[Path, PackageManifest]


@pytest.fixture(name="package")
def package_fixture(setting: str, tmp_path: Path) -> Package:
    if "archive" in setting:
        path, beside = packed_archive(tmp_path, "toy", "1.0.0", b"one")
    else:
        path, beside = packed_prefix(tmp_path, "toy", "1.0.0", {"a.txt": b"one", "b/c.txt": b"two"})
    return path, read_manifest(beside)


def keys(s3: Any, prefix: str = "") -> list[str]:
    return [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])]


def before(s3: Any, operation: str, part: str, action: Callable[[], object]) -> None:
    """Run an action of another process just before this client's first such call with that part in its key."""
    armed = [True]

    def handler(params: dict[str, Any], **_: object) -> None:
        if armed[0] and part in params.get("Key", params.get("Prefix", "")):
            armed[0] = False
            action()

    s3.meta.events.register(f"provide-client-params.s3.{operation}", handler)


def killed() -> None:
    raise KeyboardInterrupt


def orphan(s3: Any, registry: S3ModelRegistry, package: Package) -> None:
    """Leave a package's bytes without a version, as a push that was killed before its last request does."""
    before(s3, "PutObject", "/versions/", killed)
    with pytest.raises(KeyboardInterrupt):
        registry.push(*package, actor="ann")
    assert keys(s3, "models/toy/blobs/")


def test_bytes_that_nothing_names_go_after_the_grace_period_and_not_before(
    s3: Any, registry: S3ModelRegistry, clock: Later, package: Package
) -> None:
    orphan(s3, registry, package)
    clock.ahead = GRACE - timedelta(minutes=1)
    young = registry.collector.collect(grace=GRACE)
    assert young.removed == ()
    assert ["grace" in kept.why for kept in young.kept] == [True]
    clock.ahead = GRACE + timedelta(minutes=1)
    [gone] = registry.collector.collect(grace=GRACE).removed
    assert (gone.sha256, gone.size_bytes) == (package[1].archive_sha256, package[1].size_bytes)
    assert keys(s3) == []


def test_a_dry_run_says_the_same_and_changes_nothing(
    s3: Any, registry: S3ModelRegistry, clock: Later, package: Package
) -> None:
    orphan(s3, registry, package)
    clock.ahead = 2 * GRACE
    there = keys(s3)
    told = registry.collector.collect(grace=GRACE, dry_run=True)
    assert keys(s3) == there
    assert told.removed == registry.collector.collect(grace=GRACE).removed != ()


def test_what_a_version_names_stays_for_ever(
    s3: Any, registry: S3ModelRegistry, clock: Later, package: Package
) -> None:
    registry.push(*package, actor="ann")
    clock.ahead = timedelta(days=4000)
    there = keys(s3)
    done = registry.collector.collect(grace=timedelta())
    assert (done.removed, done.kept, keys(s3)) == ((), (), there)


@pytest.mark.parametrize("named_by", ["alias", "approval"])
def test_what_an_alias_or_an_approval_names_stays_even_without_its_version(
    s3: Any, registry: S3ModelRegistry, clock: Later, package: Package, named_by: str
) -> None:
    registry.push(*package, actor="ann")
    if named_by == "alias":
        registry.move_alias("toy", "production", "1.0.0", actor="ann", reason="first")
    else:
        registry.approvals.approve("toy", "1.0.0", actor="ann", reason="looked at")
    s3.delete_object(Bucket=BUCKET, Key="models/toy/versions/1.0.0.json")  # by hand
    clock.ahead = 2 * GRACE
    assert registry.collector.collect(grace=GRACE).removed == ()


def test_an_entry_that_cannot_be_read_stops_the_collection_before_anything_goes(
    s3: Any, registry: S3ModelRegistry, clock: Later, package: Package
) -> None:
    orphan(s3, registry, package)
    s3.put_object(Bucket=BUCKET, Key="models/zoo/versions/1.0.0.json", Body=b"{}")
    clock.ahead = 2 * GRACE
    with pytest.raises(RegistryError, match="zoo"):
        registry.collector.collect(grace=GRACE)
    assert keys(s3, "models/toy/blobs/")


@pytest.fixture(name="orphaned")
def orphaned_fixture(s3: Any, registry: S3ModelRegistry, clock: Later, package: Package) -> Package:
    """Give a package whose bytes lie in the bucket without a version, older than the grace period."""
    orphan(s3, registry, package)
    clock.ahead = 2 * GRACE
    return package


MEETINGS = {
    # the moments of a push, named by its next request, at which a whole collection runs
    "before the claim": ("PutObject", "/claims/"),
    "after the claim": ("GetObject", "/condemned/"),
    "before it looks": ("HeadObject", "/blobs/"),
    "before the version": ("PutObject", "/versions/"),
    "before the claim goes": ("DeleteObject", "/claims/"),
}


@pytest.mark.parametrize("meeting", MEETINGS)
def test_a_whole_collection_at_any_moment_of_a_push_never_leaves_a_version_without_bytes(
    s3: Any, registry: S3ModelRegistry, other: S3ModelRegistry, orphaned: Package, meeting: str
) -> None:
    before(s3, *MEETINGS[meeting], lambda: other.collector.collect(grace=GRACE))
    registry.push(*orphaned, actor="bob")
    registry.verify("toy", "1.0.0")


COLLECTION_MOMENTS = {
    # the moments of a collection, named by its next request, at which a whole push runs
    "before it condemns": ("PutObject", "/condemned/"),
    "before it looks again": ("ListObjectsV2", "/claims/"),
    "before it deletes": ("DeleteObject", "/blobs/"),
    "before it acquits": ("DeleteObject", "/condemned/"),
}


@pytest.mark.parametrize("moment", COLLECTION_MOMENTS)
def test_a_whole_push_at_any_moment_of_a_collection_is_refused_or_keeps_its_bytes(
    s3: Any, registry: S3ModelRegistry, other: S3ModelRegistry, orphaned: Package, moment: str
) -> None:
    refused: list[RegistryError] = []

    def push() -> None:
        try:
            other.push(*orphaned, actor="bob")
        except RegistryError as error:
            refused.append(error)

    before(s3, *COLLECTION_MOMENTS[moment], push)
    registry.collector.collect(grace=GRACE)
    if refused:
        assert "push again" in str(refused[0])
        assert list(registry.versions()) == []
        other.push(*orphaned, actor="bob")
    registry.verify("toy", "1.0.0")


@pytest.mark.parametrize("moment", COLLECTION_MOMENTS)
def test_of_two_collections_that_meet_one_removes_and_neither_fails(
    s3: Any, registry: S3ModelRegistry, other: S3ModelRegistry, orphaned: Package, moment: str
) -> None:
    inner: list[int] = []
    before(s3, *COLLECTION_MOMENTS[moment], lambda: inner.append(len(other.collector.collect(grace=GRACE).removed)))
    outer = len(registry.collector.collect(grace=GRACE).removed)
    assert keys(s3) == []
    assert inner[0] + outer >= 1
    registry.push(*orphaned, actor="bob")
    registry.verify("toy", "1.0.0")


def test_a_claim_between_condemnation_and_second_look_keeps_its_bytes(
    s3: Any, registry: S3ModelRegistry, clock: Later, package: Package
) -> None:
    orphan(s3, registry, package)
    clock.ahead = 2 * GRACE
    collecting = boto3.client("s3", region_name="us-east-1")
    collector = S3ModelRegistry(BUCKET, collecting, clock=clock).collector
    first: list[str] = []
    before(s3, "GetObject", "/condemned/", lambda: first.append(str(collector.collect(grace=GRACE).kept[0].why)))
    registry.push(*package, actor="bob")
    assert "bob pushes it" in first[0]
    registry.verify("toy", "1.0.0")
    assert [key for key in keys(s3) if "/claims/" in key or "/condemned/" in key] == []


def test_a_killed_collection_blocks_a_push_until_the_next_one_ends_it(
    s3: Any, registry: S3ModelRegistry, other: S3ModelRegistry, clock: Later, package: Package
) -> None:
    orphan(s3, registry, package)
    clock.ahead = 2 * GRACE
    before(s3, "DeleteObject", "/blobs/", killed)
    with pytest.raises(KeyboardInterrupt):
        registry.collector.collect(grace=GRACE)
    with pytest.raises(RegistryError, match="streamhub registry gc"):
        other.push(*package, actor="bob")
    assert other.collector.collect(grace=GRACE).removed == ()  # the killed one may be alive
    clock.ahead += CONDEMNED_LIFE
    assert len(other.collector.collect(grace=GRACE).removed) == 1
    other.push(*package, actor="bob")
    other.verify("toy", "1.0.0")


def test_a_condemnation_that_outlived_its_bytes_is_taken_back(
    s3: Any, registry: S3ModelRegistry, other: S3ModelRegistry, clock: Later, package: Package
) -> None:
    orphan(s3, registry, package)
    clock.ahead = 2 * GRACE
    before(s3, "DeleteObject", "/condemned/", killed)
    with pytest.raises(KeyboardInterrupt):
        registry.collector.collect(grace=GRACE)
    clock.ahead += CONDEMNED_LIFE
    other.collector.collect(grace=GRACE)
    assert keys(s3) == []


def test_a_push_that_took_longer_than_its_claim_is_honoured_does_not_enter(
    s3: Any, registry: S3ModelRegistry, clock: Later, package: Package
) -> None:
    def slow() -> None:
        clock.ahead += CLAIM_LIFE / 2

    before(s3, "PutObject", "/blobs/", slow)
    with pytest.raises(RegistryError, match="push it again"):
        registry.push(*package, actor="ann")
    assert list(registry.versions()) == []
    registry.push(*package, actor="ann")
    registry.verify("toy", "1.0.0")


def test_uploads_that_nobody_ends_go_with_the_grace_period(s3: Any, registry: S3ModelRegistry) -> None:
    # moto lets every upload begin in 2010
    s3.create_multipart_upload(Bucket=BUCKET, Key="models/toy/blobs/sha256/00/model.tar.gz")
    s3.create_multipart_upload(Bucket=BUCKET, Key="elsewhere")
    assert len(registry.collector.collect(grace=GRACE, dry_run=True).uploads) == 1
    assert len(registry.collector.collect(grace=GRACE).uploads) == 1
    assert [left["Key"] for left in s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]] == ["elsewhere"]


def test_an_upload_that_somebody_pushes_is_left_alone_however_old_it_is(s3: Any, registry: S3ModelRegistry) -> None:
    """A push takes up what another one left; without that it would begin again and again beside a collection."""
    digest = "0" * 64
    s3.create_multipart_upload(Bucket=BUCKET, Key=f"models/toy/blobs/sha256/{digest}/files/a/b.bin")
    with registry.collector.claims.claimed("toy", digest, actor="ann"):
        assert registry.collector.collect(grace=timedelta()).uploads == ()
    assert len(registry.collector.collect(grace=timedelta()).uploads) == 1
