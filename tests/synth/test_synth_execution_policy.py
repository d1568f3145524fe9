"""The execution policy of docs/deploy.md lets CloudFormation make, change and delete every type of every stage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from serving.preflight.checks.account import ACTIONS
from tests.synth.conftest import Synthesised

MAX_POLICY_CHARACTERS = 6144  # IAM quotas: a managed policy, white space not counted
SERVICES = {
    "ApiGatewayV2": "apigateway",
    "ApplicationAutoScaling": "application-autoscaling",
    "ElasticLoadBalancingV2": "elasticloadbalancing",
}
NOT_OURS = {
    # roles here have no boundary; whoever wants one gives it to `cdk bootstrap` and adds these
    "iam:DeleteRolePermissionsBoundary",
    "iam:PutRolePermissionsBoundary",
    # inline policies of users and groups, of which the stacks have none
    "iam:DeleteGroupPolicy",
    "iam:DeleteUserPolicy",
    "iam:GetGroupPolicy",
    "iam:GetUserPolicy",
    "iam:PutGroupPolicy",
    "iam:PutUserPolicy",
}


def policy(root: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((root / "docs" / "execution-policy.json").read_text())
    return document


def allowed(document: dict[str, Any]) -> list[str]:
    return [action.lower() for statement in document["Statement"] for action in statement["Action"]]


def handled(kind: str) -> Iterator[str]:
    """Give the actions of a type's own service that its handlers call."""
    provider = kind.split("::")[1]
    service = SERVICES.get(provider, provider.lower())
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    for handler in schema.get("handlers", {}).values():
        yield from (action for action in handler.get("permissions", ()) if action.split(":")[0].lower() == service)


def test_every_type_can_be_made_changed_and_deleted(stage: Synthesised, root: Path) -> None:
    patterns = allowed(policy(root))
    kinds = {resource.entry["Type"] for resource in stage.everything()}
    denied = {
        f"{kind} {action}"
        for kind in kinds
        if not kind.startswith(("Custom::", "AWS::CDK::"))
        for action in handled(kind)
        if action not in NOT_OURS and not any(fnmatchcase(action.lower(), pattern) for pattern in patterns)
    }
    assert denied == set()


def test_roles_are_the_stacks_own(root: Path) -> None:
    for statement in policy(root)["Statement"]:
        if any(action.startswith("iam:") for action in statement["Action"]):
            assert statement["Resource"] in {
                "arn:aws:iam::*:role/streamhub-*",
                "arn:aws:iam::*:role/aws-service-role/*",
            }


def test_it_is_no_administrator_and_fits_a_managed_policy(root: Path) -> None:
    document = policy(root)
    assert "*" not in allowed(document)
    assert len(json.dumps(document, separators=(",", ":"))) <= MAX_POLICY_CHARACTERS


@pytest.mark.parametrize("kind", sorted(ACTIONS))
def test_what_preflight_asks_for_the_policy_allows(kind: str, root: Path) -> None:
    action, pattern = ACTIONS[kind]
    place = pattern.format(region="us-east-1", account="123456789012", name="streamhub-test-preflight")
    resource = f"arn:aws:{place}" if pattern else "*"
    assert any(
        any(fnmatchcase(action.lower(), allowed_action.lower()) for allowed_action in statement["Action"])
        and any(
            fnmatchcase(resource, allowed_resource)
            for allowed_resource in (
                [statement["Resource"]] if isinstance(statement["Resource"], str) else statement["Resource"]
            )
        )
        for statement in policy(root)["Statement"]
    )
