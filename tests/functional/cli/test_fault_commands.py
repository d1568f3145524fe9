"""`streamhub local fault`: what it writes is what the services look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.local import app
from local.faults import KINDS, Faults


def told(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["fault", *words, "--json"])
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_fault_is_added_listed_and_removed(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path))
    options = ("--bucket", "registry", "--prefix", "models/", "--operation", "PutObject", "--count", "3")
    assert told("add", "s3-503", *options, *state) == {"added": "s3-503:registry"}
    [fault] = Faults(tmp_path / "services").all()
    assert (fault.bucket, fault.prefix, fault.operation, fault.count) == ("registry", "models/", "PutObject", 3)
    [listed] = told("list", *state)["faults"]
    assert (listed["kind"], listed["count"]) == ("s3-503", 3)
    assert told("remove", "s3-503:registry", *state) == {"removed": "s3-503:registry"}
    assert told("list", *state) == {"faults": []}


def test_every_kind_is_listed_with_what_it_does_and_its_options() -> None:
    kinds = told("kinds")["kinds"]
    assert kinds.keys() == KINDS.keys()
    assert kinds["dynamodb-throttle"]["options"] == ["table", "operation", "share", "count"]
    plain = CliRunner().invoke(app, ["fault", "kinds"]).stdout
    assert "slow: adds a delay to answers of endpoints (--endpoint --delay-ms --share)" in plain


def test_the_page_names_every_kind(root: Path) -> None:
    page = (root / "docs" / "local.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in page] == []


@pytest.mark.parametrize("words", [("add", "slow", "--prefix", "x"), ("add", "none"), ("remove", "absent")])
def test_what_cannot_be_is_an_error_of_the_stack(words: tuple[str, ...], tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["fault", *words, "--state", str(tmp_path)])
    assert type(done.exception).__name__ == "LocalStackError"
    assert "allowed" in str(done.exception)
