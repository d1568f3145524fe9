"""Types of each stage that the local AWS cannot deploy: `local/lacking.json` names them, and may not grow unseen."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from local import ministack_adapter
from local.resource_types import Target, resource_types


@pytest.fixture(scope="session", name="deployable")
def deployable_fixture() -> frozenset[str]:
    """Give the types that the emulator and our extension of it implement."""
    target = Target(endpoint_url="http://127.0.0.1:1", region="us-east-1")
    ministack_adapter.application(resource_types(target))
    provisioners: Any = import_module("ministack.services.cloudformation.provisioners")
    return frozenset(provisioners._RESOURCE_HANDLERS)


@pytest.mark.parametrize("name", ["dev", "staging", "prod"])
def test_the_list_of_types_that_the_local_aws_lacks_is_exact(
    name: str, request: pytest.FixtureRequest, root: Path, deployable: frozenset[str]
) -> None:
    listed = json.loads((root / "local" / "lacking.json").read_text())
    stage = request.getfixturevalue(name)
    used = {resource.entry["Type"] for resource in stage.everything()}
    # a type that is missing here needs a handler in local/resource_types.py, or its name in the list
    assert sorted(used - deployable) == listed[name]


def test_dev_lacks_nothing(root: Path) -> None:
    assert json.loads((root / "local" / "lacking.json").read_text())["dev"] == []
