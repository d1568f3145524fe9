"""The models that a client may load by name: what lies in one folder, named when the server starts."""

from __future__ import annotations

import re
from pathlib import Path

from serving.errors import NotLoadedError, ServerError
from serving.protocol.served import FILE_NAME
from serving.spec.versions import is_semantic, order

_ARCHIVE = re.compile(r"(?P<name>[A-Za-z0-9_]+)-(?P<version>[0-9.]+)\.model\.tar\.gz", re.ASCII)


class Shelf:
    """A folder of archives as `streamhub package` names them, `<name>-<version>.model.tar.gz`, and of unpacked ones.

    A name is looked up among what lies there, so none leads out of the folder; links that do are not seen.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise ServerError(f"--model-repository: got {root}; allowed a folder that exists; create it or correct it")
        self._root = root.resolve()

    def sources(self) -> dict[str, Path]:
        """Give what can be loaded now: a folder before an archive, and of several archives the newest version."""
        archives: dict[str, tuple[tuple[int, ...], Path]] = {}
        folders: dict[str, Path] = {}
        for path in self._root.iterdir():
            match = _ARCHIVE.fullmatch(path.name)
            if not path.resolve().is_relative_to(self._root):
                continue
            if _holds_model(path):
                folders[path.name] = path
            elif match and path.is_file() and is_semantic(match["version"]):
                ranked = order(match["version"]), path
                archives[match["name"]] = max(archives.get(match["name"], ranked), ranked)
        return {name: path for name, (_, path) in archives.items()} | folders

    def source(self, name: str) -> Path:
        """Give what a name loads.

        Raises:
            NotLoadedError: nothing of that name lies there.

        """
        sources = self.sources()
        if name not in sources:
            allowed = ", ".join(sorted(sources)) or "nothing: the folder is empty"
            raise NotLoadedError(f"model {name!r}: got a name that is not in the repository; allowed {allowed}")
        return sources[name]


def _holds_model(path: Path) -> bool:
    """Say whether a folder is what an archive unpacks to."""
    return path.is_dir() and ((path / FILE_NAME).is_file() or any(path.glob(f"*/{FILE_NAME}")))


def inside(root: Path, url: str) -> Path:
    """Give the path of a model that SageMaker put below its folder of models.

    Raises:
        NotLoadedError: it is not there, or not below the folder.

    """
    path = Path(url)
    if not path.is_absolute() or not path.resolve().is_relative_to(root.resolve()) or not path.exists():
        raise NotLoadedError(
            f"url: got {url[:200]!r}; allowed an unpacked model or an archive below {root}; put the model there"
        )
    return path
