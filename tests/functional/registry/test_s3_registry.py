from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import orjson
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from cli.registry import app
from serving.aws.registry import S3ModelRegistry
from serving.errors import AliasConflictError, IntegrityError, ModelNotFoundError, RegistryError, VersionConflictError
from serving.spec.manifest import PackageManifest

BUCKET = "streamhub-dev-registry-123456789012"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Ticking:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture(name="s3")
def s3_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "testing")
    for key in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"):
        monkeypatch.delenv(key, raising=False)
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client


@pytest.fixture(name="registry")
def registry_fixture(s3: Any) -> S3ModelRegistry:
    return S3ModelRegistry(BUCKET, s3, clock=Ticking())


def packed(folder: Path, version: str, data: bytes, name: str = "toy") -> tuple[Path, PackageManifest]:
    archive = folder / f"{name}-{version}-{len(data)}.model.tar.gz"
    archive.write_bytes(data)
    manifest = PackageManifest(
        name=name,
        version=version,
        archive_sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        files=(),
        spec_sha256="0" * 64,
        runtime="triton",
        image="sagemaker-tritonserver:x",
        licence="Apache-2.0",
        inputs=(),
        outputs=(),
        labels=(),
        thresholds={},
        metrics={"auc": 0.9},
        training_commit="",
        data_sha256="",
        baseline={"rows": 3, "features": []},
        toolchain={},
    )
    return archive, manifest


def keys(s3: Any) -> list[str]:
    return [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def once_before_put(s3: Any, ending: str, action: Callable[[], object]) -> None:
    """Run an action of another writer just before this client's first put of a key with that ending."""
    armed = [True]

    def handler(params: dict[str, Any], **_: object) -> None:
        if armed[0] and params["Key"].endswith(ending):
            armed[0] = False
            action()

    s3.meta.events.register("provide-client-params.s3.PutObject", handler)


def test_a_pushed_version_is_the_bytes_under_their_digest_and_an_entry(
    s3: Any, registry: S3ModelRegistry, tmp_path: Path
) -> None:
    archive, manifest = packed(tmp_path, "1.0.0", b"one")
    registered = registry.push(archive, manifest, actor="ann")
    digest = hashlib.sha256(b"one").hexdigest()
    blob = f"models/toy/blobs/sha256/{digest}/model.tar.gz"
    assert registered.s3_uri == f"s3://{BUCKET}/{blob}"
    assert registered.created_by == "ann"
    assert registered.created_at > START
    assert keys(s3) == [blob, "models/toy/versions/1.0.0.json"]
    assert s3.get_object(Bucket=BUCKET, Key=blob)["Body"].read() == b"one"
    assert registry.manifest("toy", "1.0.0") == manifest
    entry = orjson.loads(s3.get_object(Bucket=BUCKET, Key="models/toy/versions/1.0.0.json")["Body"].read())
    assert entry["registered"]["sha256"] == digest


def test_the_same_bytes_again_change_nothing(s3: Any, registry: S3ModelRegistry, tmp_path: Path) -> None:
    archive, manifest = packed(tmp_path, "1.0.0", b"one")
    first = registry.push(archive, manifest, actor="ann")
    before = keys(s3)
    assert registry.push(archive, manifest, actor="bob") == first
    assert keys(s3) == before


def test_a_damaged_archive_of_a_stored_version_is_no_success(registry: S3ModelRegistry, tmp_path: Path) -> None:
    archive, manifest = packed(tmp_path, "1.0.0", b"one")
    registry.push(archive, manifest, actor="ann")
    archive.write_bytes(b"on")
    with pytest.raises(RegistryError, match="of its manifest"):
        registry.push(archive, manifest, actor="ann")


def test_other_bytes_under_a_version_are_refused_and_leave_it_as_it_was(
    registry: S3ModelRegistry, tmp_path: Path
) -> None:
    first = registry.push(*packed(tmp_path, "1.0.0", b"one"), actor="ann")
    with pytest.raises(VersionConflictError, match="never change"):
        registry.push(*packed(tmp_path, "1.0.0", b"other"), actor="ann")
    assert list(registry.versions("toy")) == [first]


def test_of_two_writers_of_one_version_the_first_wins_and_the_other_is_refused(
    s3: Any, registry: S3ModelRegistry, tmp_path: Path
) -> None:
    mine, theirs = packed(tmp_path, "1.0.0", b"mine"), packed(tmp_path, "1.0.0", b"theirs!")
    other = S3ModelRegistry(BUCKET, boto3.client("s3", region_name="us-east-1"), clock=Ticking())
    once_before_put(s3, "versions/1.0.0.json", lambda: other.push(*theirs, actor="bob"))
    with pytest.raises(VersionConflictError):
        registry.push(*mine, actor="ann")
    assert registry.manifest("toy", "1.0.0") == theirs[1]


def test_two_writers_of_the_same_bytes_both_get_the_first_entry(
    s3: Any, registry: S3ModelRegistry, tmp_path: Path
) -> None:
    pair = packed(tmp_path, "1.0.0", b"same")
    other = S3ModelRegistry(BUCKET, boto3.client("s3", region_name="us-east-1"), clock=Ticking())
    once_before_put(s3, "model.tar.gz", lambda: other.push(*pair, actor="bob"))
    assert registry.push(*pair, actor="ann").created_by == "bob"
    assert len(registry.versions()) == 1


def test_an_interrupted_push_shows_no_version_and_the_next_one_finishes_it(
    s3: Any, registry: S3ModelRegistry, tmp_path: Path
) -> None:
    def killed() -> None:
        raise KeyboardInterrupt

    pair = packed(tmp_path, "1.0.0", b"one")
    once_before_put(s3, "versions/1.0.0.json", killed)
    with pytest.raises(KeyboardInterrupt):
        registry.push(*pair, actor="ann")
    assert [key.rsplit("/", 1)[1] for key in keys(s3)] == ["model.tar.gz"]
    assert list(registry.versions("toy")) == []
    with pytest.raises(ModelNotFoundError):
        registry.manifest("toy", "1.0.0")
    assert registry.push(*pair, actor="bob").created_by == "bob"


def test_an_archive_that_is_not_its_manifests_is_refused_before_anything_is_stored(
    s3: Any, registry: S3ModelRegistry, tmp_path: Path
) -> None:
    archive, manifest = packed(tmp_path, "1.0.0", b"one")
    archive.write_bytes(b"changed")
    with pytest.raises(RegistryError, match="of its manifest"):
        registry.push(archive, manifest, actor="ann")
    assert keys(s3) == []


def test_a_blob_somebody_wrote_by_hand_is_not_taken_for_the_archive(
    s3: Any, registry: S3ModelRegistry, tmp_path: Path
) -> None:
    archive, manifest = packed(tmp_path, "1.0.0", b"one")
    s3.put_object(Bucket=BUCKET, Key=f"models/toy/blobs/sha256/{manifest.archive_sha256}/model.tar.gz", Body=b"evil")
    with pytest.raises(RegistryError, match="by hand"):
        registry.push(archive, manifest, actor="ann")
    assert list(registry.versions("toy")) == []


def test_versions_are_ordered_as_numbers_and_by_model(registry: S3ModelRegistry, tmp_path: Path) -> None:
    for name, version in (("toy", "10.0.0"), ("toy", "9.1.0"), ("art", "1.0.0")):
        registry.push(*packed(tmp_path, version, f"{name}{version}".encode(), name), actor="ann")
    assert [(model.name, model.version) for model in registry.versions()] == [
        ("art", "1.0.0"),
        ("toy", "9.1.0"),
        ("toy", "10.0.0"),
    ]
    assert [model.version for model in registry.versions("toy")] == ["9.1.0", "10.0.0"]


@pytest.fixture(name="stocked")
def stocked_fixture(registry: S3ModelRegistry, tmp_path: Path) -> S3ModelRegistry:
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        registry.push(*packed(tmp_path, version, version.encode()), actor="ann")
    return registry


def test_an_alias_moves_and_remembers_where_it_was(stocked: S3ModelRegistry) -> None:
    assert stocked.alias("toy", "production") is None
    first = stocked.move_alias("toy", "production", "1.0.0", actor="ann", reason="first")
    second = stocked.move_alias("toy", "production", "2.0.0", actor="bob", reason="better")
    assert (first.generation, first.previous) == (1, None)
    assert (second.generation, second.previous, second.version) == (2, "1.0.0", "2.0.0")
    assert second.sha256 == hashlib.sha256(b"2.0.0").hexdigest()
    assert stocked.alias("toy", "production") == second
    assert list(stocked.history("toy")) == [first, second]


def test_an_alias_that_points_there_already_stays_as_it_is(stocked: S3ModelRegistry) -> None:
    first = stocked.move_alias("toy", "production", "1.0.0", actor="ann", reason="first")
    assert stocked.move_alias("toy", "production", "1.0.0", actor="bob", reason="again") == first


def test_rollback_goes_back_to_the_version_before_and_is_a_move_of_its_own(stocked: S3ModelRegistry) -> None:
    stocked.move_alias("toy", "production", "1.0.0", actor="ann", reason="first")
    stocked.move_alias("toy", "production", "2.0.0", actor="ann", reason="better")
    back = stocked.roll_back_alias("toy", "production", actor="bob", reason="errors")
    assert (back.version, back.previous, back.generation) == ("1.0.0", "2.0.0", 3)


def test_rollback_without_a_version_before_is_refused(stocked: S3ModelRegistry) -> None:
    for _ in range(2):
        with pytest.raises(ModelNotFoundError, match="production"):
            stocked.roll_back_alias("toy", "production", actor="bob", reason="errors")
        stocked.move_alias("toy", "production", "1.0.0", actor="ann", reason="first")


@pytest.mark.parametrize("start", [None, "1.0.0"])
def test_an_alias_that_somebody_else_moved_first_is_not_overwritten(
    s3: Any, stocked: S3ModelRegistry, start: str | None
) -> None:
    if start is not None:
        stocked.move_alias("toy", "production", start, actor="ann", reason="first")
    other = S3ModelRegistry(BUCKET, boto3.client("s3", region_name="us-east-1"), clock=Ticking())
    once_before_put(
        s3,
        "aliases/production.json",
        lambda: other.move_alias("toy", "production", "3.0.0", actor="bob", reason="mine"),
    )
    with pytest.raises(AliasConflictError, match="production"):
        stocked.move_alias("toy", "production", "2.0.0", actor="ann", reason="better")
    found = stocked.alias("toy", "production")
    assert found is not None
    assert (found.version, found.actor) == ("3.0.0", "bob")


def test_a_move_whose_log_was_lost_is_still_in_the_history_and_logged_by_the_next_move(
    s3: Any, stocked: S3ModelRegistry
) -> None:
    def killed() -> None:
        raise KeyboardInterrupt

    once_before_put(s3, "log/production/0000000001.json", killed)
    with pytest.raises(KeyboardInterrupt):
        stocked.move_alias("toy", "production", "1.0.0", actor="ann", reason="first")
    assert [record.version for record in stocked.history("toy")] == ["1.0.0"]
    stocked.move_alias("toy", "production", "2.0.0", actor="ann", reason="better")
    assert [key for key in keys(s3) if "/log/" in key] == [
        "models/toy/log/production/0000000001.json",
        "models/toy/log/production/0000000002.json",
    ]
    assert [record.version for record in stocked.history("toy")] == ["1.0.0", "2.0.0"]


def test_a_move_repeated_because_its_answer_was_lost_succeeds(s3: Any, stocked: S3ModelRegistry) -> None:
    stocked.move_alias("toy", "production", "1.0.0", actor="ann", reason="first")
    twin = boto3.client("s3", region_name="us-east-1")
    armed = [True]

    def delivered_before(params: dict[str, Any], **_: object) -> None:
        if armed[0] and params["Key"].endswith("aliases/production.json"):
            armed[0] = False
            twin.put_object(Bucket=BUCKET, Key=params["Key"], Body=params["Body"])

    s3.meta.events.register("provide-client-params.s3.PutObject", delivered_before)
    assert stocked.move_alias("toy", "production", "2.0.0", actor="ann", reason="better").generation == 2


def test_aliases_of_one_model_count_their_moves_apart(stocked: S3ModelRegistry) -> None:
    stocked.move_alias("toy", "production", "1.0.0", actor="ann", reason="first")
    stocked.move_alias("toy", "shadow", "2.0.0", actor="ann", reason="try")
    assert [record.alias for record in stocked.aliases("toy")] == ["production", "shadow"]
    assert [record.generation for record in stocked.history("toy")] == [1, 1]


def test_an_alias_to_a_version_that_is_not_there_names_those_that_are(stocked: S3ModelRegistry) -> None:
    with pytest.raises(ModelNotFoundError, match=r"1\.0\.0, 2\.0\.0, 3\.0\.0"):
        stocked.move_alias("toy", "production", "4.0.0", actor="ann", reason="typo")


@pytest.mark.parametrize(("name", "version"), [("../toy", "1.0.0"), ("toy", "../1.0.0"), ("toy", "1.0")])
def test_names_that_would_leave_their_folder_are_refused(registry: S3ModelRegistry, name: str, version: str) -> None:
    with pytest.raises(RegistryError, match="allowed"):
        registry.manifest(name, version)


def test_a_damaged_entry_is_named(s3: Any, stocked: S3ModelRegistry) -> None:
    s3.put_object(Bucket=BUCKET, Key="models/toy/versions/2.0.0.json", Body=b"{}")
    with pytest.raises(RegistryError, match=r"models/toy/versions/2\.0\.0\.json"):
        stocked.manifest("toy", "2.0.0")


@pytest.mark.parametrize("field", ["name", "version", "archive_sha256"])
def test_an_entry_that_says_it_is_another_is_no_entry(
    s3: Any, stocked: S3ModelRegistry, tmp_path: Path, field: str
) -> None:
    key = {"Bucket": BUCKET, "Key": "models/toy/versions/2.0.0.json"}
    document = orjson.loads(s3.get_object(**key)["Body"].read())
    document["manifest"][field] = "../../evil"
    s3.put_object(**key, Body=orjson.dumps(document))
    with pytest.raises(IntegrityError, match=r"versions/2\.0\.0\.json: got an entry of another"):
        stocked.pull("toy", "2.0.0", tmp_path / "a" / "b")
    assert not (tmp_path / "evil.manifest.json").exists()


def test_a_bucket_that_is_not_there_is_one_line(s3: Any) -> None:
    registry = S3ModelRegistry("streamhub-no-such-bucket", s3, clock=Ticking())
    with pytest.raises(RegistryError, match="NoSuchBucket") as caught:
        registry.versions()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("module", "command"), [("versions", "list"), ("aliases", "history")])
def test_the_commands_refuse_a_model_that_the_registry_does_not_hold(
    stocked: S3ModelRegistry, monkeypatch: pytest.MonkeyPatch, module: str, command: str
) -> None:
    monkeypatch.setattr(f"cli.registry.{module}.open_registry", lambda _bucket: stocked)
    done = CliRunner().invoke(app, [command, "rankr", "--bucket", BUCKET])
    assert isinstance(done.exception, ModelNotFoundError)
    assert "it has toy" in str(done.exception)
