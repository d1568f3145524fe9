"""One JSON file that holds what a service remembers: written whole, so that a reader never sees half of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson

from local.aws_json import Json
from serving.errors import LocalStackError

FORMAT = 1


class StateFile:
    """Reads and writes the named parts of a state."""

    def __init__(self, path: Path, parts: Iterable[str]) -> None:
        self._path = path
        self._parts = frozenset(parts)

    def read(self) -> Json:
        """Give the parts, all empty if there is no file yet.

        Raises:
            LocalStackError: the file is not such a state.

        """
        if not self._path.exists():
            return {part: {} for part in self._parts}
        try:
            state = orjson.loads(self._path.read_bytes())
        except orjson.JSONDecodeError as error:
            raise LocalStackError(f"{self._path}: not JSON ({error}); delete the file to start anew") from error
        if not isinstance(state, dict) or state.get("format") != FORMAT or not self._parts <= set(state):
            raise LocalStackError(f"{self._path}: not a state of format {FORMAT}; delete the file to start anew")
        return {part: state[part] for part in self._parts}

    def write(self, parts: Json) -> None:
        """Write the parts in place of what was there."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_suffix(".tmp")
        scratch.write_bytes(orjson.dumps({"format": FORMAT, **parts}))
        scratch.replace(self._path)
