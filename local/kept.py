"""The record of a kept stack: who wrote it, on which ports it answers, and which inputs it was deployed from.

It is written when a stack is complete, so a folder without it has nothing to go on from.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import orjson

from local import checkpoints
from local.snapshot import WAY_OUT, Snapshot
from serving.errors import LocalStackError
from serving.spec.codec import from_json

FOLDER = "kept"
_FILE = "stack.json"
_FORMAT = 1
_MADE_BY = ("streamhub-inference", "ministack")
"""The packages whose version a kept state belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the next `up` must know: packages that wrote it, ports, the digest of what was deployed."""

    made_by: dict[str, str]
    ports: dict[str, int]
    inputs: str


def snapshot_of(state_dir: Path) -> Snapshot:
    """Give the snapshot of the stack of that folder, or of an image."""
    return Snapshot(state_dir / FOLDER / checkpoints.FILE)


def made_by() -> dict[str, str]:
    """Give the versions of this installation that a kept state depends on."""
    return {name: version(name) for name in _MADE_BY}


def write(state_dir: Path, kept: Kept) -> None:
    """Write the record, whole or not at all."""
    path = state_dir / FOLDER / _FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_bytes(orjson.dumps({"format": _FORMAT, **asdict(kept)}, option=orjson.OPT_INDENT_2))
    scratch.replace(path)


def read(state_dir: Path) -> Kept | None:
    """Give the record of that folder, None if nothing is kept there.

    Raises:
        LocalStackError: it is no record, or one of other versions of the packages.

    """
    path = state_dir / FOLDER / _FILE
    try:
        document = orjson.loads(path.read_bytes())
        if document["format"] != _FORMAT:
            raise LocalStackError(f"{path}: got format {document['format']}; allowed: {_FORMAT}; {WAY_OUT}")
        kept = from_json(orjson.dumps({key: held for key, held in document.items() if key != "format"}), Kept)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise LocalStackError(f"{path}: got no record of a kept stack ({error}); {WAY_OUT}") from error
    ours = made_by()
    other = [f"{name} {kept.made_by.get(name, 'none')}" for name in ours if kept.made_by.get(name) != ours[name]]
    if other:
        allowed = ", ".join(f"{name} {number}" for name, number in ours.items())
        raise LocalStackError(f"{path}: got a stack of {', '.join(other)}; allowed: {allowed}; {WAY_OUT}")
    return kept
