"""Images: what a stack holds right after its deployment, by the digest of all that it was deployed from.

The same inputs make the same stack, so a later one starts from the image in place of a synthesis and a deployment.
Nothing of it says where it was made: ports and folders are those of the new stack.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from local import kept
from local import state as states
from local.clock import is_ahead
from local.kept import Kept
from serving.errors import LocalStackError

FOLDER = Path(".streamhub/images")
"""Where a project keeps its images."""

_MOST = 2
_BUILT = ("cdk.out", "lambdas")
_HOME = "state-folder:"


def find(root: Path, digest: str) -> Path | None:
    """Give the image of these inputs, None if there is none that this installation can read."""
    image = root / FOLDER / digest
    try:
        return image if kept.read(image) is not None else None
    except LocalStackError:
        return None


def make(root: Path, digest: str, state_dir: Path, *, ports: Mapping[str, int]) -> None:
    """Make the image of the stack in that folder, whose snapshot was just taken; the oldest ones go.

    A stack whose time is ahead of the machine's gives none: what it holds would lie in the future of the next one.
    """
    if is_ahead(states.clock_file(state_dir)):
        return
    folder = root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as scratch:
        new = Path(scratch) / digest
        for name in _BUILT:
            shutil.copytree(state_dir / name, new / name, symlinks=True)
        documents, blobs = kept.snapshot_of(state_dir).read()
        general = {name: _general(text, state_dir) for name, text in documents.items()}
        kept.snapshot_of(new).write(general, blobs, at_s=time.time())
        kept.write(new, Kept(made_by=kept.made_by(), ports=dict(ports), inputs=digest))
        shutil.rmtree(folder / digest, ignore_errors=True)
        with contextlib.suppress(OSError):  # another stack was faster
            new.rename(folder / digest)
    _drop_oldest(folder)


def unpack(image: Path, state_dir: Path, *, ports: Mapping[str, int]) -> bool:
    """Put an image into the empty folder of a stack that will answer on these ports; False if it is damaged or gone."""
    try:
        record = kept.read(image)
        if record is None:
            return False
        os.utime(image)
        for name in _BUILT:
            shutil.copytree(image / name, state_dir / name, symlinks=True)
        documents, blobs = kept.snapshot_of(image).read()
        moved = {name: _moved(text, record.ports, ports, state_dir) for name, text in documents.items()}
        kept.snapshot_of(state_dir).write(moved, blobs, at_s=time.time())
    except (LocalStackError, OSError):
        shutil.rmtree(image, ignore_errors=True)
        for name in (*_BUILT, kept.FOLDER):
            shutil.rmtree(state_dir / name, ignore_errors=True)
        return False
    return True


def _general(text: str, state_dir: Path) -> str:
    return text.replace(f'"{state_dir}/', f'"{_HOME}')


def _moved(text: str, old: Mapping[str, int], new: Mapping[str, int], state_dir: Path) -> str:
    """Put the new stack's addresses in place of the old one's: AWS as host and port, the cache also as a port alone."""
    text = text.replace(_HOME, f"{state_dir}/")
    for name in ("gateway", "valkey"):
        text = text.replace(f"127.0.0.1:{old[name]}", f"127.0.0.1:{new[name]}")
    for quote in ("", '"'):
        text = text.replace(f'Port": {quote}{old["valkey"]}{quote}', f'Port": {quote}{new["valkey"]}{quote}')
    return text


def _drop_oldest(folder: Path) -> None:
    images = sorted((path for path in folder.iterdir() if not path.name.startswith(".")), key=_used, reverse=True)
    for image in images[_MOST:]:
        shutil.rmtree(image, ignore_errors=True)


def _used(image: Path) -> float:
    try:
        return image.stat().st_mtime
    except OSError:
        return 0.0
