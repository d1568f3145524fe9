"""Approvals, lineage, locks and SageMaker's model packages; and the commands over them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws
from typer.testing import CliRunner

from cli.registry import app
from serving.aws.model_packages import ModelPackages
from serving.aws.registry import S3ModelRegistry
from serving.aws.registry.lineage import Sources, at, tenures
from serving.errors import ApprovalError, ModelNotFoundError, RegistryError
from serving.spec.manifest import AliasRecord, FileEntry
from tests.fakes.registry import packed_archive, read_manifest

BUCKET = "streamhub-dev-registry-123456789012"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Hourly:
    """One hour a look: 13:00 first."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(hours=1)
        return self.now


@pytest.fixture(name="s3")
def s3_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(key, "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for key in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_SAGEMAKER", "AWS_PROFILE"):
        monkeypatch.delenv(key, raising=False)
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
        yield client


@pytest.fixture(name="registry")
def registry_fixture(s3: Any, tmp_path: Path) -> S3ModelRegistry:
    made = S3ModelRegistry(BUCKET, s3, clock=Hourly())
    for version in ("1.0.0", "2.0.0"):
        path, beside = packed_archive(tmp_path, "toy", version, version.encode())
        made.push(path, read_manifest(beside), actor="ann")
    return made


def command(*words: str) -> Any:
    done = CliRunner().invoke(app, [*words, "--bucket", BUCKET, "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return json.loads(done.stdout)


WHO = ("--actor", "ann", "--reason", "looked at")


def test_a_protected_alias_moves_to_approved_digests_alone_and_says_what_is_missing(registry: S3ModelRegistry) -> None:
    registry.approvals.protect("toy", "production", required=True, actor="ann", reason="policy")
    with pytest.raises(ApprovalError, match=r"no approval of sha256 .*registry approve toy 1\.0\.0"):
        registry.move_alias("toy", "production", "1.0.0", actor="bob", reason="try")
    with pytest.raises(ApprovalError, match="no approval"):
        registry.refuse_unapproved("toy", "production", "1.0.0")
    registry.approvals.approve("toy", "1.0.0", actor="ann", reason="looked at")
    registry.refuse_unapproved("toy", "production", "1.0.0")
    assert registry.move_alias("toy", "production", "1.0.0", actor="bob", reason="go").version == "1.0.0"
    assert registry.move_alias("toy", "shadow", "2.0.0", actor="bob", reason="not protected").version == "2.0.0"


def test_a_revocation_holds_until_the_next_approval_and_forbids_a_rollback_too(registry: S3ModelRegistry) -> None:
    for version in ("1.0.0", "2.0.0"):
        registry.approvals.approve("toy", version, actor="ann", reason="looked at")
        registry.move_alias("toy", "production", version, actor="bob", reason="go")
    registry.approvals.protect("toy", "production", required=True, actor="ann", reason="policy")
    registry.approvals.revoke("toy", "1.0.0", actor="eve", reason="leak")
    with pytest.raises(ApprovalError, match="revocation by eve"):
        registry.roll_back_alias("toy", "production", actor="bob", reason="errors")
    registry.approvals.approve("toy", "1.0.0", actor="ann", reason="no leak")
    assert registry.roll_back_alias("toy", "production", actor="bob", reason="errors").version == "1.0.0"
    assert [each.decision for each in registry.approvals.decisions("toy", "1.0.0")] == [
        "approved",
        "revoked",
        "approved",
    ]


def test_an_approval_is_of_bytes_not_of_a_name(registry: S3ModelRegistry, tmp_path: Path) -> None:
    registry.approvals.approve("toy", "1.0.0", actor="ann", reason="looked at")
    path, beside = packed_archive(tmp_path, "toy", "1.0.1", b"1.0.0")  # the same bytes under another version
    registry.push(path, read_manifest(beside), actor="bob")
    found = registry.approvals.of("toy", "1.0.1")
    assert found is not None
    assert found.decision == "approved"
    assert registry.approvals.of("toy", "2.0.0") is None


def test_deciding_twice_alike_changes_nothing_and_there_is_nothing_to_revoke_before(registry: S3ModelRegistry) -> None:
    with pytest.raises(ApprovalError, match="nothing to revoke"):
        registry.approvals.revoke("toy", "1.0.0", actor="eve", reason="leak")
    first = registry.approvals.approve("toy", "1.0.0", actor="ann", reason="looked at")
    assert registry.approvals.approve("toy", "1.0.0", actor="bob", reason="me too") == first
    on = registry.approvals.protect("toy", "production", required=True, actor="ann", reason="policy")
    assert registry.approvals.protect("toy", "production", required=True, actor="bob", reason="again") == on
    registry.approvals.protect("toy", "production", required=False, actor="ann", reason="over")
    assert not registry.approvals.protected("toy", "production")


def test_of_two_deciders_the_second_hears_of_the_first(s3: Any, registry: S3ModelRegistry) -> None:
    other = S3ModelRegistry(BUCKET, boto3.client("s3", region_name="us-east-1"), clock=Hourly())
    armed = [True]

    def first(params: dict[str, Any], **_: object) -> None:
        if armed[0] and "/approvals/" in params["Key"]:
            armed[0] = False
            other.approvals.approve("toy", "1.0.0", actor="bob", reason="mine")

    s3.meta.events.register("provide-client-params.s3.PutObject", first)
    with pytest.raises(ApprovalError, match="bob decided in this moment"):
        registry.approvals.approve("toy", "1.0.0", actor="ann", reason="mine")


def test_the_commands_tell_what_ran_on_a_date(registry: S3ModelRegistry) -> None:
    registry.move_alias("toy", "production", "1.0.0", actor="ann", reason="first")
    registry.move_alias("toy", "production", "2.0.0", actor="bob", reason="better")
    first, second = command("lineage", "toy", "--alias", "production")["tenures"]
    assert (first["version"], first["until"]) == ("1.0.0", second["since"])
    assert (second["version"], second["until"]) == ("2.0.0", None)
    for moment, version in ((first["since"], "1.0.0"), (second["since"], "2.0.0"), ("2030-01-01", "2.0.0")):
        [found] = command("lineage", "toy", "--alias", "production", "--at", moment)["tenures"]
        assert found["version"] == version
    with pytest.raises(ModelNotFoundError, match="first moved"):
        command("lineage", "toy", "--alias", "production", "--at", "2026-03-01T12:00Z")


@pytest.mark.parametrize(
    ("option", "value", "versions"),
    [
        ("--data-sha256", "d" * 64, ["3.0.0"]),
        ("--training-commit", "c0ffee1", ["3.0.0"]),
        ("--file-sha256", "f" * 64, ["3.0.0"]),
        ("--data-sha256", "0" * 64, []),
    ],
)
def test_the_commands_tell_what_came_of_data_commit_or_file_and_where_it_ran(
    registry: S3ModelRegistry, tmp_path: Path, option: str, value: str, versions: list[str]
) -> None:
    path, beside = packed_archive(
        tmp_path,
        "toy",
        "3.0.0",
        b"3.0.0",
        data_sha256="d" * 64,
        training_commit="c0ffee1234567",
        files=(FileEntry(path="model.onnx", size_bytes=1, sha256="f" * 64),),
    )
    registry.push(path, read_manifest(beside), actor="ann")
    registry.move_alias("toy", "production", "3.0.0", actor="ann", reason="first")
    uses = command("lineage", option, value)["uses"]
    assert [use["registered"]["version"] for use in uses] == versions
    assert [tenure["alias"] for use in uses for tenure in use["tenures"]] == ["production"] * len(versions)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50)), max_size=12), st.integers(-1, 60))
def test_a_moment_belongs_to_the_last_move_before_it(moves: list[tuple[str, int]], minute: int) -> None:
    counts = {"a": 0, "b": 0}
    records = []
    for alias, minutes in sorted(moves, key=lambda move: move[1]):
        counts[alias] += 1
        records.append(
            AliasRecord(
                name="toy",
                alias=alias,
                version=f"{counts[alias]}.0.0",
                sha256="",
                previous=None,
                generation=counts[alias],
                actor="ann",
                reason="",
                moved_at=START + timedelta(minutes=minutes),
            )
        )
    held = tenures(records)
    for alias in "ab":
        passed = sum(each == alias and when <= minute for each, when in moves)
        found = at(held, alias, START + timedelta(minutes=minute))
        assert (found.version if found is not None else None) == (f"{passed}.0.0" if passed else None)
    assert sum(each.until is None for each in held) == len({alias for alias, _ in moves})


def test_sources_that_say_nothing_fit_everything_and_all_that_are_said_must_fit(tmp_path: Path) -> None:
    _, beside = packed_archive(tmp_path, "toy", "1.0.0", b"x", data_sha256="d" * 64, training_commit="abc1234")
    manifest = read_manifest(beside)
    assert Sources().fit(manifest)
    assert Sources(data_sha256="d" * 64, training_commit="abc").fit(manifest)
    assert not Sources(data_sha256="d" * 64, training_commit="abd").fit(manifest)


def test_a_version_is_locked_for_longer_and_never_for_less(s3: Any, registry: S3ModelRegistry) -> None:
    registry.approvals.approve("toy", "1.0.0", actor="ann", reason="looked at")
    far, near = datetime(2040, 1, 1, tzinfo=UTC), datetime(2035, 1, 1, tzinfo=UTC)
    done = registry.retention.retain("toy", "1.0.0", until=far)
    assert (done.locked, done.objects, done.mode) == (3, 3, "GOVERNANCE")  # entry, archive, approval
    assert registry.retention.retain("toy", "1.0.0", until=near).locked == 0
    held = s3.head_object(Bucket=BUCKET, Key="models/toy/versions/1.0.0.json")
    assert (held["ObjectLockMode"], held["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", far)


def test_what_is_locked_is_no_garbage_until_the_lock_ends(s3: Any, registry: S3ModelRegistry) -> None:
    registry.retention.retain("toy", "1.0.0", until=datetime(2040, 1, 1, tzinfo=UTC))
    s3.delete_object(Bucket=BUCKET, Key="models/toy/versions/1.0.0.json")  # by hand
    for year, kept in ((2039, 1), (2041, 0)):
        later = S3ModelRegistry(BUCKET, s3, clock=lambda year=year: datetime(year, 1, 1, tzinfo=UTC))  # type: ignore[misc]
        done = later.collector.collect(grace=timedelta(days=1))
        assert (len(done.kept), len(done.removed)) == (kept, 1 - kept)


def test_a_bucket_without_object_lock_says_so(s3: Any, tmp_path: Path) -> None:
    s3.create_bucket(Bucket="plain-bucket")
    registry = S3ModelRegistry("plain-bucket", s3, clock=Hourly())
    path, beside = packed_archive(tmp_path, "toy", "1.0.0", b"x")
    registry.push(path, read_manifest(beside), actor="ann")
    with pytest.raises(RegistryError, match='removal = "retain"'):
        registry.retention.retain("toy", "1.0.0", until=START)


def test_a_version_is_a_model_package_once_and_follows_its_approval(s3: Any, tmp_path: Path) -> None:
    del s3
    path, _ = packed_archive(tmp_path, "toy", "1.0.0", b"1.0.0")
    group = ("--model-package-group", "toys")
    first = command("push", str(path), "--actor", "ann", *group)["model_package"]
    assert command("push", str(path), "--actor", "bob", *group)["model_package"] == first
    assert first["status"] == "PendingManualApproval"
    sagemaker = boto3.client("sagemaker", region_name="us-east-1")
    for verb, status in (("approve", "Approved"), ("revoke", "Rejected"), ("approve", "Approved")):
        command(verb, "toy", "1.0.0", *WHO, *group)
        assert sagemaker.describe_model_package(ModelPackageName=first["arn"])["ModelApprovalStatus"] == status
    made = sagemaker.describe_model_package(ModelPackageName=first["arn"])
    [container] = made["InferenceSpecification"]["Containers"]
    assert container["Image"].endswith(".dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:x")
    assert container["ModelDataSource"]["S3DataSource"]["S3DataType"] == "S3Object"
    assert len(sagemaker.list_model_packages(ModelPackageGroupName="toys")["ModelPackageSummaryList"]) == 1
    with pytest.raises(RegistryError, match="no package of"):
        ModelPackages(sagemaker, group="others").decide("0" * 64, "Approved", reason="x")


def test_every_command_answers_in_json(registry: S3ModelRegistry, tmp_path: Path) -> None:
    digest = registry.registered("toy", "1.0.0").sha256
    assert command("approve", "toy", "1.0.0", *WHO)["decision"] == "approved"
    assert command("protect", "toy", "production", *WHO)["required"] is True
    assert command("alias", "toy", "production", "1.0.0", *WHO)["generation"] == 1
    assert command("verify", "toy", "1.0.0")["ok"] is True
    assert command("show", "toy", "1.0.0")["decisions"][0]["sha256"] == digest
    assert Path(command("pull", "toy", "1.0.0", "--out", str(tmp_path / "out"))["path"]).read_bytes() == b"1.0.0"
    assert command("retain", "toy", "1.0.0", "--days", "400")["locked"] == 3
    assert command("gc", "--dry-run")["removed"] == []
    assert [each["version"] for each in command("list")["versions"]] == ["1.0.0", "2.0.0"]
    assert command("lineage", "toy", "--sha256", digest)["uses"][0]["tenures"][0]["alias"] == "production"
