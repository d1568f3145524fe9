"""The digest of everything that a deployment of the local stack is made from."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from pathlib import Path

_FILES = ("app.py", "cdk.json", "cdk.context.json", "uv.lock", "package-lock.json", "pyproject.toml")
_FOLDERS = ("infra", "stacks", "stages", "models", "schemas", "serving", "lambdas", "model_packaging", "local")
_SKIPPED = frozenset({"__pycache__"})


def digest_of_inputs(root: Path) -> str:
    """Give a digest that is the same for the same interpreter, locks, code, specs and models."""
    total = hashlib.sha256(platform.python_version().encode())
    for path in sorted(_inputs(root)):
        name = path.relative_to(root).as_posix().encode()
        total.update(len(name).to_bytes(8) + name)
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _inputs(root: Path) -> Iterator[Path]:
    yield from (root / name for name in _FILES if (root / name).is_file())
    for folder in _FOLDERS:
        yield from (path for path in (root / folder).rglob("*") if path.is_file() and _SKIPPED.isdisjoint(path.parts))
