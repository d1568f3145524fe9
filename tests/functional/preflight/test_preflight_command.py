"""`streamhub preflight --against`: two folders of `cdk synth`, no account; what it prints and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.main import build, main
from tests.unit.preflight.accounts import REGISTRY, ranker

STACKS = {"streamhub-test-registry": REGISTRY, "streamhub-test-ranker": ranker()}
RESET = ranker(endpoint={"RetainAllVariantProperties": False})
EMPTY: dict[str, Any] = {"Resources": {"Topic": {"Type": "AWS::SNS::TopicPolicy"}}}
DELETED = {"Resources": {"Bucket": {**REGISTRY["Resources"]["Bucket"], "DeletionPolicy": "Delete"}}}


def folder(path: Path, stacks: dict[str, Any]) -> Path:
    path.mkdir()
    artifacts = {
        name: {
            "type": "aws:cloudformation:stack",
            "environment": "aws://123456789012/us-east-1",
            "properties": {"templateFile": f"{name}.json"},
        }
        for name in stacks
    }
    (path / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    for name, template in stacks.items():
        (path / f"{name}.json").write_text(json.dumps(template))
    return path


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr("sys.argv", ["streamhub", "preflight", "--stage", "test", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("after", "fail_on", "code"),
    [
        (STACKS, "warning", 0),
        ({**STACKS, "streamhub-test-ranker": RESET}, "error", 1),
        ({**STACKS, "streamhub-test-ranker": RESET}, "destructive", 0),
        ({**STACKS, "streamhub-test-registry": EMPTY}, "warning", 1),
        ({**STACKS, "streamhub-test-registry": EMPTY}, "destructive", 0),
    ],
    ids=["the same", "a reset is an error", "but destroys nothing", "a kept bucket warns", "and is not destroyed"],
)
def test_the_exit_code_is_that_of_the_threshold(
    after: dict[str, Any], fail_on: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = folder(tmp_path / "old", STACKS), folder(tmp_path / "new", after)
    assert run(monkeypatch, "--templates", new, "--against", old, "--fail-on", fail_on) == code


def test_a_deleted_bucket_fails_the_gate_of_a_pull_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = folder(tmp_path / "old", {"streamhub-test-registry": DELETED})
    new = folder(tmp_path / "new", {"streamhub-test-registry": EMPTY})
    assert run(monkeypatch, "--templates", new, "--against", old, "--fail-on", "destructive") == 1


def test_findings_are_one_line_each_with_a_sum_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = folder(tmp_path / "old", STACKS)
    new = folder(tmp_path / "new", {"streamhub-test-registry": EMPTY, "streamhub-test-ranker": RESET})
    assert run(monkeypatch, "--templates", new, "--against", old) == 1
    lines = capsys.readouterr().out.splitlines()
    # the lost export of the bucket, the reset, and the bucket that stays behind
    assert sorted(line.split(":")[0] for line in lines[:-1]) == ["error", "error", "warning"]
    assert lines[-1] == "errors: 2, warnings: 1, not verified: 0"


def test_the_json_document_has_every_part_of_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = folder(tmp_path / "old", STACKS)
    new = folder(tmp_path / "new", {**STACKS, "streamhub-test-ranker": RESET})
    run(monkeypatch, "--templates", new, "--against", old, "--json")
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["stage"]) == (False, "test")
    [finding] = document["findings"]
    assert set(finding) == {"level", "check", "what", "got", "allowed", "fix", "source", "destructive"}


def test_a_missing_folder_is_one_line_and_exit_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--templates", tmp_path / "none", "--against", tmp_path / "none") == 1
    said = capsys.readouterr().err.strip()
    assert said.startswith("streamhub: ")
    assert "\n" not in said


def test_the_command_is_in_the_tree() -> None:
    assert build(["preflight"]).registered_commands
