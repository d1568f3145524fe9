"""A function's role allows the AWS calls that its adapters make, and no other: read from their code, not from a list.

S3 is left out: keys decide there, and `test_synth_security.py` names them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

# service of botocore → prefix of IAM (Service Authorization Reference)
SERVICES = {
    "application-autoscaling": "application-autoscaling",
    "cloudwatch": "cloudwatch",
    "dynamodb": "dynamodb",
    "sagemaker": "sagemaker",
    "sagemaker-runtime": "sagemaker",
}
PREFIXES = tuple(f"{prefix}:" for prefix in SERVICES.values())
ROLES = {"predict": ("api", "PredictRole"), "release": ("release", "ReleaseRole"), "drift": ("release", "DriftRole")}


@cache
def operations() -> dict[str, str]:
    """Give method → action of every operation, as `get_item` → `dynamodb:GetItem`."""
    session = botocore.session.get_session()
    found = {}
    for name, prefix in SERVICES.items():
        model = session.get_service_model(name)
        found |= {xform_name(each): f"{prefix}:{each}" for each in model.operation_names}
    return found


def adapters(wiring: Path) -> Iterator[ast.ClassDef]:
    """Give the classes of `serving.aws` that a wiring module makes."""
    root = wiring.parents[2]
    for node in ast.walk(ast.parse(wiring.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("serving.aws."):
            path = root / f"{node.module.replace('.', '/')}.py"
            if path.is_file():
                names = {alias.name for alias in node.names}
                tree = ast.parse(path.read_text(encoding="utf-8"))
                yield from (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name in names)


def called(adapter: ast.ClassDef) -> Iterator[str]:
    """Give the actions of an adapter's calls; a transaction needs those of its items."""
    methods = [node.attr for node in ast.walk(adapter) if isinstance(node, ast.Attribute)]
    texts = [node.value for node in ast.walk(adapter) if isinstance(node, ast.Constant)]
    methods += [text for text in texts if isinstance(text, str)]  # paginators name their operation
    for action in {operations()[name] for name in methods if name in operations()}:
        if action == "dynamodb:TransactWriteItems":
            yield from (f"dynamodb:{kind}Item" for kind in ("Put", "Update", "Delete") if kind in texts)
        else:
            yield action


@pytest.mark.parametrize("function", ROLES)
def test_a_role_allows_what_its_function_calls_and_no_other(function: str, prod: Any, root: Path) -> None:
    part, role = ROLES[function]
    allowed = {
        action
        for found in prod.all("AWS::IAM::Policy", part)
        if found.props["Roles"][0]["Ref"].startswith(role)
        for statement in found.props["PolicyDocument"]["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
        if action.startswith(PREFIXES)
    }
    calls = {action for each in adapters(root / "lambdas" / function / "wiring.py") for action in called(each)}
    assert calls
    assert allowed == calls
