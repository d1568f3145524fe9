"""Each stack's template as it was reviewed: a change of it is a change of a committed file (`make snapshots`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

SNAPSHOTS = Path(__file__).parent / "snapshots"
# the built code's own digest: it changes with every line of Python and is no change of a stack
ASSET = re.compile(r"^[0-9a-f]{64}\.zip$")


@pytest.fixture(params=["dev", "staging", "prod", "tasks"], name="snapped")
def snapped_fixture(request: pytest.FixtureRequest) -> Any:
    """Give each stage in turn, and one whose API runs as tasks."""
    return request.getfixturevalue(request.param)


def normal(value: Any) -> Any:
    """Give a template without what differs from one machine to the next, or tells nothing of the stack."""
    if isinstance(value, Mapping):
        return {key: normal(inner) for key, inner in value.items() if key != "Metadata"}
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    return "<digest>.zip" if isinstance(value, str) and ASSET.match(value) else value


def text_of(template: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in template.items() if key in {"Resources", "Outputs", "Conditions"}}
    return json.dumps(normal(kept), indent=1, sort_keys=True) + "\n"


def test_every_template_is_the_committed_one(snapped: Any, request: pytest.FixtureRequest) -> None:
    folder = SNAPSHOTS / snapped.stage.name
    made = {f"{part}.json": text_of(template) for part, template in snapped.templates.items()}
    if request.config.getoption("--write-snapshots", default=False):
        folder.mkdir(parents=True, exist_ok=True)
        for stale in {path.name for path in folder.iterdir()} - made.keys():
            (folder / stale).unlink()
        for name, text in made.items():
            (folder / name).write_text(text, encoding="utf-8")
    committed = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    assert committed.keys() == made.keys(), "run make snapshots and look at the difference"
    differing = sorted(name for name, text in made.items() if committed[name] != text)
    assert not differing, f"run make snapshots and look at the difference of {snapped.stage.name}"


def test_a_change_of_one_property_is_a_change_of_the_snapshot(dev: Any) -> None:
    template = json.loads(json.dumps(dev.templates["registry"]))
    before = text_of(template)
    bucket = next(entry for entry in template["Resources"].values() if entry["Type"] == "AWS::S3::Bucket")
    bucket["DeletionPolicy"] = "Retain"
    assert text_of(template) != before
