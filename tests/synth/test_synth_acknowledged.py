"""Findings that are accepted: each by name, at its construct, with a reason; so many of each in a stage and no more.

A number that grows is a finding that somebody accepted: look at it in review, then change it here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import cdk_nag
import pytest

STAGES = ("dev", "staging", "prod", "tasks")
# APIG4: two open routes. IAM5: grants below named prefixes, and actions without a finer resource. L1: the runtime that
# the locked wheels are for. VPC7: no flow logs where the stage is thrown away. AEC6: IAM tokens, no AUTH token. ECS2:
# names in a task's environment.
_FUNCTIONS = {"AwsSolutions-APIG4": 2, "AwsSolutions-L1": 3}
NAG = {
    "dev": {**_FUNCTIONS, "AwsSolutions-IAM5": 39, "AwsSolutions-VPC7": 1},
    "staging": {**_FUNCTIONS, "AwsSolutions-IAM5": 51},
    "prod": {**_FUNCTIONS, "AwsSolutions-IAM5": 51, "AwsSolutions-AEC6": 1},
    "tasks": {"AwsSolutions-L1": 2, "AwsSolutions-IAM5": 51, "AwsSolutions-AEC6": 1, "AwsSolutions-ECS2": 1},
}
LINT = {
    "dev": {"W3005": 9},
    "staging": {"W3005": 13},
    "prod": {"W3005": 13},
    "tasks": {"W3005": 13},
}


@pytest.fixture(params=STAGES, name="named")
def named_fixture(request: pytest.FixtureRequest) -> str:
    """Give the name of each stage in turn."""
    name: str = request.param
    return name


def family(rule: str) -> str:
    """`AwsSolutions-IAM5[Resource::*]` is of the family `AwsSolutions-IAM5`."""
    return rule.split("[", maxsplit=1)[0]


def test_cdk_nag_finds_what_is_accepted_and_nothing_else(named: str, fargate_project: Any, synthesise: Any) -> None:
    made = synthesise(fargate_project, named, cdk_nag.AwsSolutionsChecks(verbose=True))
    report = json.loads((made.folder / "validation-report.json").read_text(encoding="utf-8"))
    (nag,) = [plugin for plugin in report["pluginReports"] if plugin["pluginName"] == "AwsSolutions"]
    assert nag["violations"] == []
    accepted = nag["suppressedViolations"]
    assert all(len(row["reason"]) > len("because") for row in accepted)
    assert Counter(family(row["ruleName"]) for row in accepted) == NAG[named]


def test_cfn_lint_finds_what_cdk_always_writes_and_nothing_else(named: str, request: pytest.FixtureRequest) -> None:
    """W3005: a DependsOn that a reference implies already. W3045: access control of a bucket."""
    folder = request.getfixturevalue(named).folder
    files = sorted(str(path) for path in folder.glob("*.template.json"))
    command = [str(Path(sys.executable).parent / "cfn-lint"), "--format", "json", "--", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert Counter(row["Rule"]["Id"] for row in json.loads(done.stdout or "[]")) == LINT[named]
