"""A key that nothing reads is a promise that nothing keeps: every field of the specs is read by some code."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import spec

READERS = ("serving", "model_packaging", "infra", "stacks", "lambdas", "cli", "local")
TYPES = sorted(
    (kind for name in spec.__all__ if dataclasses.is_dataclass(kind := getattr(spec, name)) and isinstance(kind, type)),
    key=lambda kind: kind.__name__,
)
# for people who read the file
FOR_PEOPLE = {"owner", "description"}


def names_read(path: Path) -> Iterator[str]:
    """Give what a file reads by attribute, or names in a text of its own for `getattr`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


@pytest.fixture(scope="module", name="read")
def read_fixture(root: Path) -> frozenset[str]:
    return frozenset(name for folder in READERS for path in (root / folder).rglob("*.py") for name in names_read(path))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_every_key_is_read_by_some_code(kind: type, read: frozenset[str]) -> None:
    keys = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    assert keys - read - FOR_PEOPLE == set()
