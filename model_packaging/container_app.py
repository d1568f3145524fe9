"""What a foreign model server's container is made of, and what no file of it may be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from model_packaging.archive import Member
from model_packaging.pickle_scan import pickle_problems
from model_packaging.python_source import syntax_problems

Server = Literal["torchserve", "bentoml"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerApp:
    """A model to serve as its server wants it.

    `members` lie below the image's /opt/app, `entry` (one of them) is what Python starts in `folder`, a path below it;
    `invocations` says what answers SageMaker's /invocations; `requirements` is installed when the image is built.
    """

    server: Server
    name: str
    version: str
    invocations: str
    entry: str
    members: tuple[Member, ...]
    folder: str = ""
    requirements: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def plain_names(folder: Path) -> list[str]:
    """Give every file of a folder, links too, but for what Python leaves behind; sorted POSIX paths."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    names = sorted(path.relative_to(folder).as_posix() for path in found)
    return [name for name in names if "__pycache__" not in name.split("/")]


def content_problems(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """Give a line for every file that is a link, no Python though it says so, or a pickle."""
    for name in names:
        path = folder / name
        if path.is_symlink() or not path.is_file():
            yield f"{name}: got a link or special file; allowed plain files; copy the folder with `cp -rL`"
        elif name.endswith(".py"):
            yield from syntax_problems(path, name)
        else:
            yield from pickle_problems(path, name)
