"""What the commands of the registry refuse before they ask S3: usage that would go wrong later or find nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from cli.registry import app
from serving.aws.registry import S3ModelRegistry, connect
from serving.errors import AliasConflictError, ModelNotFoundError, PackagingError, RegistryError
from tests.fakes.registry import packed_archive, read_manifest

BUCKET = "streamhub-dev-registry-123456789012"
WHO = ("--actor", "ann", "--reason", "looked at")


@pytest.fixture(name="registry")
def registry_fixture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[S3ModelRegistry]:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(key, "testing")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    for key in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "MLFLOW_TRACKING_URI", "STREAMHUB_ACTOR"):
        monkeypatch.delenv(key, raising=False)
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
        made = connect(BUCKET)
        for version in ("1.0.0", "2.0.0"):
            path, beside = packed_archive(tmp_path, "toy", version, version.encode())
            made.push(path, read_manifest(beside), actor="ann")
            made.move_alias("toy", "production", version, actor="ann", reason="go")
        yield made


def asked(*words: str) -> Any:
    return CliRunner().invoke(app, [*words, "--bucket", BUCKET])


@pytest.mark.parametrize(
    "words",
    [
        ("gc", "--grace-days", "1e30"),
        ("gc", "--grace-days", "inf"),
        ("gc", "--grace-days", "nan"),
        ("gc", "--grace-days", "-1"),
        ("retain", "toy", "1.0.0", "--days", "99999999999"),
        ("retain", "toy", "1.0.0", "--days", "0"),
        ("lineage", "--sha256", "abc"),
        ("lineage", "--data-sha256", "g" * 64),
        ("lineage", "--file-sha256", "0" * 63),
        ("lineage", "--training-commit", "abc"),
        ("lineage", "toy", "--alias", "production", "--at", "yesterday"),
        ("push", "x.model.tar.gz", "--actor", " "),
        ("push", "x.model.tar.gz", "--actor", "ann\nbob"),
        ("approve", "toy", "1.0.0", "--actor", "ann", "--reason", "\x1b[2J"),
        ("rollback", "toy", "production", "--actor", "ann", "--reason", "\udcff"),
    ],
)
@pytest.mark.usefixtures("registry")
def test_usage_that_no_registry_could_serve_exits_2(words: tuple[str, ...]) -> None:
    assert asked(*words).exit_code == 2


def test_digests_are_found_in_either_case(registry: S3ModelRegistry) -> None:
    digest = registry.registered("toy", "1.0.0").sha256
    assert "toy 1.0.0" in asked("lineage", "--sha256", digest.upper()).output


@pytest.mark.parametrize(
    "words", [("protect", "tyo", "production", *WHO), ("lineage", "tyo", "--sha256", "0" * 64), ("list", "tyo")]
)
def test_a_mistyped_model_is_no_answer(registry: S3ModelRegistry, words: tuple[str, ...]) -> None:
    done = asked(*words)
    assert isinstance(done.exception, ModelNotFoundError)
    assert "it has toy" in str(done.exception)
    assert not registry.approvals.protected("tyo", "production")


def test_a_rollback_from_a_version_does_nothing_the_second_time(registry: S3ModelRegistry) -> None:
    words = ("rollback", "toy", "production", "--from", "2.0.0", *WHO)
    assert asked(*words).exit_code == 0
    again = asked(*words)
    assert isinstance(again.exception, AliasConflictError)
    assert "nothing was moved" in str(again.exception)
    stands = registry.alias("toy", "production")
    assert stands is not None
    assert (stands.version, stands.generation) == ("1.0.0", 3)


@pytest.mark.parametrize("alias", ["a" * 64, "Production", "../x", "1st", ""])
def test_an_alias_is_short_enough_for_the_key_of_its_log(registry: S3ModelRegistry, alias: str) -> None:
    with pytest.raises(RegistryError, match="alias: got"):
        registry.move_alias("toy", alias, "1.0.0", actor="ann", reason="x")


@pytest.mark.parametrize("version", [f"1.0.{'9' * 10}", f"1.0.{'9' * 5000}"])
def test_a_version_is_short_enough_for_a_key_and_a_number(registry: S3ModelRegistry, version: str) -> None:
    with pytest.raises(RegistryError, match="version: got"):
        registry.manifest("toy", version)


@pytest.mark.parametrize("bucket", ["Bad Bucket!", "", "a" * 300])
def test_a_name_that_is_no_bucket_is_one_line(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")  # without keys botocore would ask the network for some
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    done = CliRunner().invoke(app, ["list", "--bucket", bucket])
    assert isinstance(done.exception, RegistryError)
    assert "correct the bucket" in str(done.exception)
    assert "\n" not in str(done.exception)


@pytest.mark.usefixtures("registry")
def test_a_package_that_is_not_there_is_named_itself(tmp_path: Path) -> None:
    done = asked("push", str(tmp_path / "none.model.tar.gz"), "--actor", "ann")
    assert isinstance(done.exception, RegistryError)
    assert "none.model.tar.gz: got no such file" in str(done.exception)


@pytest.mark.usefixtures("registry")
def test_who_pushes_the_same_bytes_with_another_manifest_hears_that_it_did_not_count(tmp_path: Path) -> None:
    path, _ = packed_archive(tmp_path, "toy", "1.0.0", b"1.0.0")
    assert "note: " not in asked("push", str(path), "--actor", "bob").stderr
    path, _ = packed_archive(tmp_path, "toy", "1.0.0", b"1.0.0", training_commit="c0ffee1")
    done = asked("push", str(path), "--actor", "bob")
    assert done.exit_code == 0
    assert "that one stays" in " ".join(done.stderr.split())


@pytest.mark.usefixtures("registry")
def test_an_import_without_a_server_begins_none(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    model = ("--model", "recommendation_ranker", "--version", "4.0.0", "--root", str(root), "--actor", "ann")
    done = asked("import-mlflow", "models:/toy/1", *model)
    assert isinstance(done.exception, PackagingError)
    assert "--tracking-uri" in str(done.exception)
    assert set(tmp_path.iterdir()) == before
