"""What a Python file defines, read from its syntax tree: nothing of it is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

BYTECODE_SUFFIXES = (".pyc", ".pyo", ".egg", ".whl")
"""Python that nobody can read; it is imported as source is."""

_UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def syntax_problems(path: Path, name: str) -> Iterator[str]:
    """Say where a file is no Python."""
    try:
        ast.parse(path.read_bytes(), filename=name)
    except _UNPARSABLE as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else str(error) or "expressions nested without end"
        yield f"{name}: got {text}{line}; allowed Python source; correct it"


def defined_functions(path: Path) -> dict[str, _Function] | None:
    """Give the functions at a file's top level; None when it is no Python."""
    tree = _tree(path)
    return None if tree is None else _functions(tree.body)


def defined_methods(path: Path, cls: str) -> dict[str, _Function] | None:
    """Give the methods of a class at a file's top level, none when it is not there; None when it is no Python."""
    tree = _tree(path)
    if tree is None:
        return None
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls]
    return _functions(classes[-1].body) if classes else {}


def positional_range(function: _Function) -> tuple[int, int]:
    """Give how many positional arguments a function needs and takes at most (`*args`: any number, here 255)."""
    arguments = function.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    return most - len(arguments.defaults), 255 if arguments.vararg else most


def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except _UNPARSABLE:
        return None


def _functions(body: list[ast.stmt]) -> dict[str, _Function]:
    return {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
