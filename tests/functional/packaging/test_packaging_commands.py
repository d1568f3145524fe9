"""The commands of packaging and registry, as a user types them, on the project's own ranker and an S3 in process."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import orjson
import pytest
from moto import mock_aws

from cli.main import main

BUCKET = "streamhub-dev-registry-123456789012"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(name="project")
def project_fixture(root: Path, tmp_path: Path) -> Path:
    shutil.copytree(root / "models", tmp_path / "models")
    return tmp_path


@pytest.fixture(name="run")
def run_fixture(project: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any) -> Run:
    """Run `streamhub` in this process, as its console script does."""
    monkeypatch.chdir(project)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["streamhub", *arguments])
        code = 0
        try:
            main()
        except SystemExit as done:
            code = int(done.code or 0)
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


@pytest.fixture(name="bucket")
def bucket_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("STREAMHUB_REGISTRY_BUCKET", BUCKET)
    for key in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "STREAMHUB_ACTOR"):
        monkeypatch.delenv(key, raising=False)
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
        yield BUCKET


def test_package_without_a_version_takes_the_newest_and_says_what_it_wrote(run: Run, project: Path) -> None:
    code, out, _ = run("package", "recommendation_ranker", "--json")
    document = orjson.loads(out)
    assert code == 0
    assert document["version"] == "3.1.0"
    assert document["path"] == "dist/recommendation_ranker-3.1.0.model.tar.gz"
    assert document["size_bytes"] == (project / document["path"]).stat().st_size
    locked = orjson.loads((project / "models/recommendation_ranker/model.lock.json").read_bytes())
    assert document["sha256"] == locked["3.1.0"]["sha256"]
    assert "recommendation_ranker/1/model.onnx" in {entry["path"] for entry in document["files"]}


def test_lock_packages_every_version_and_one_version_leaves_the_others(run: Run, project: Path) -> None:
    lock = project / "models/recommendation_ranker/model.lock.json"
    before = lock.read_bytes()
    lock.unlink()
    code, out, _ = run("package", "recommendation_ranker", "--lock", "--json", "--out", "out")
    assert code == 0
    assert lock.read_bytes() == before
    assert [row["version"] for row in orjson.loads(out)["versions"]] == ["2.0.0", "3.0.0", "3.1.0"]
    assert len(list((project / "out").iterdir())) == 6
    run("package", "recommendation_ranker", "--lock", "--version", "2.0.0")
    assert lock.read_bytes() == before


def test_other_weights_make_another_archive_and_never_a_lock(run: Run, project: Path) -> None:
    weights = "models/recommendation_ranker/weights/2.0.0.onnx"
    code, out, _ = run("package", "recommendation_ranker", "--version", "9.0.0", "--weights", weights, "--json")
    assert (code, orjson.loads(out)["version"]) == (0, "9.0.0")
    assert run("package", "recommendation_ranker", "--lock", "--weights", weights)[0] == 2
    assert "9.0.0" not in (project / "models/recommendation_ranker/model.lock.json").read_text()


def test_what_cannot_be_packaged_is_refused_in_lines_without_a_trace(run: Run) -> None:
    for arguments in (("no_such_model",), ("recommendation_ranker", "--version", "8.0.0")):
        code, out, err = run("package", *arguments)
        assert (code, out) == (1, "")
        assert err.startswith("streamhub: ")
        assert "allowed" in err
        assert "Traceback" not in err


def test_verify_says_ok_or_every_finding(run: Run, project: Path) -> None:
    run("package", "recommendation_ranker", "--version", "3.0.0")
    archive = "dist/recommendation_ranker-3.0.0.model.tar.gz"
    code, out, _ = run("verify", archive)
    assert code == 0
    assert out.startswith("ok: recommendation_ranker 3.0.0")
    assert orjson.loads(run("verify", archive, "--json")[1])["archives"][0]["findings"] == []
    (project / archive).write_bytes((project / archive).read_bytes()[:-9])
    code, out, err = run("verify", archive)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) >= 2
    code, out, _ = run("verify", archive, "--json")
    assert code == 1
    assert len(orjson.loads(out)["archives"][0]["findings"]) >= 2


def test_the_life_of_an_alias_from_push_to_rollback(run: Run, bucket: str) -> None:
    run("package", "recommendation_ranker", "--lock")
    for version in ("2.0.0", "3.0.0"):
        archive = f"dist/recommendation_ranker-{version}.model.tar.gz"
        code, out, _ = run("registry", "push", archive, "--actor", "ann", "--json")
        assert code == 0
        assert orjson.loads(out)["s3_uri"].startswith(f"s3://{bucket}/models/recommendation_ranker/blobs/sha256/")
    listed = orjson.loads(run("registry", "list", "--json")[1])["versions"]
    assert [row["version"] for row in listed] == ["2.0.0", "3.0.0"]
    shown = orjson.loads(run("registry", "show", "recommendation_ranker", "3.0.0", "--json")[1])
    assert shown["manifest"]["archive_sha256"] == shown["sha256"]
    move = ("registry", "alias", "recommendation_ranker", "production")
    record = ("--actor", "ann", "--reason", "release")
    assert run(*move)[0] == 1
    assert run(*move, "2.0.0")[0] == 2
    for version in ("2.0.0", "3.0.0"):
        assert run(*move, version, *record)[0] == 0
    assert orjson.loads(run(*move, "--json")[1])["version"] == "3.0.0"
    back = run("registry", "rollback", *move[2:], "--actor", "bob", "--reason", "errors", "--json")
    assert orjson.loads(back[1])["version"] == "2.0.0"
    moves = orjson.loads(run("registry", "history", "recommendation_ranker", "--json")[1])["moves"]
    assert [(each["version"], each["actor"]) for each in moves] == [
        ("2.0.0", "ann"),
        ("3.0.0", "ann"),
        ("2.0.0", "bob"),
    ]


def test_commands_without_a_bucket_are_wrong_usage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMHUB_REGISTRY_BUCKET", raising=False)
    code, _, err = run("registry", "list")
    assert code == 2
    assert "--bucket" in err
