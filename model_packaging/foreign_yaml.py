"""YAML that another tool wrote, and anybody may have changed since."""

from __future__ import annotations

from pathlib import Path

import yaml

_MOST_NODES = 100_000
"""Far more than a bento or an MLflow model has; aliases of aliases make billions of a few lines."""


class _Loader(yaml.CSafeLoader):
    """libyaml's: PyYAML's own takes seconds for brackets that are never closed.

    Merge keys (`<<`) are an error, as no tool writes them: merges of merges double with each line.
    """

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge nothing."""


def read_yaml(path: Path, *, max_bytes: int) -> object:
    """Give what a file says: plain values alone, never an object of Python's.

    Raises:
        ValueError: it is no such file, is larger, or unfolds to more than anybody can look at.
        OSError: it cannot be read.

    """
    with path.open("rb") as file:
        text = file.read(max_bytes + 1)
    if len(text) > max_bytes:
        raise ValueError(f"more than {max_bytes} bytes")
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a safe one
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None
    if _unfolded(document, _MOST_NODES) > _MOST_NODES:
        raise ValueError(f"aliases that unfold to more than {_MOST_NODES} values")
    return document


def _unfolded(document: object, most: int) -> int:
    """Count values as often as they are named; no further than to one more than `most`."""
    waiting, count = [document], 0
    while waiting and count <= most:
        value = waiting.pop()
        count += 1
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple, set)):
            waiting += value
    return count
