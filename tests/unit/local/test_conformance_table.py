"""The conformance table of docs/local.md is what the rows say, and each row is held by a test that exists."""

from __future__ import annotations

import ast

import pytest

from tests.unit.local.conformance import PAGE, ROOT, ROWS, Row, written


@pytest.mark.parametrize("row", ROWS, ids=[row.what for row in ROWS])
def test_each_row_names_a_test_that_exists(row: Row) -> None:
    file, name = row.held_by
    tests = {node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)}
    assert name == "*" or name in tests


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text()
    assert page == written(page), "run .venv/bin/python -m tests.unit.local.conformance"
