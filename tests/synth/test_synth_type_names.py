"""A type that a test names is one that some stage has, or one that none may have: else the test looks at nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

# tests claim that no stage has them
NOWHERE = {
    "AWS::EC2::EIP",
    "AWS::EC2::InternetGateway",
    "AWS::EC2::NatGateway",
    "AWS::EC2::Route",
    "AWS::IAM::AccessKey",
}
# made where the stage file asks, in a test of its own
ASKED_FOR = {"AWS::SNS::Subscription"}
NAMED = re.compile(r'"(AWS::[A-Za-z0-9]+::[A-Za-z0-9]+)"')


@pytest.fixture(scope="module", name="made")
def made_fixture(request: pytest.FixtureRequest) -> set[str]:
    stages = [request.getfixturevalue(name) for name in ("dev", "staging", "prod", "tasks")]
    return {found.entry["Type"] for stage in stages for found in stage.everything()}


def named() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    return {name for text in texts for name in NAMED.findall(text)}


def test_every_type_that_a_test_names_is_made_by_a_stage_or_forbidden_to_all(made: set[str]) -> None:
    assert named() - made == NOWHERE | ASKED_FOR


def test_the_forbidden_types_are_types_of_cloudformation() -> None:
    assert set(PROVIDER_SCHEMA_MANAGER.get_resource_types("us-east-1")) >= NOWHERE
