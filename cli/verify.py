"""`streamhub verify`: whether their containers would serve archives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from model_packaging.verify import Verification, verify
from serving.errors import ArchiveError

_SUFFIX = ".tar.gz"
_PREFIX = ".model"


def command(
    *,
    archives: Annotated[list[Path], typer.Argument(help="Archives and .model folders, or folders of them.")],
    as_json: JsonFlag = False,
) -> None:
    """Open archives as their containers would, check them, and run their samples; say all that is wrong at once."""
    found = [verify(archive) for archive in _chosen(archives)]
    ok = all(each.ok for each in found)
    document = {"ok": ok, "archives": [_document(each) for each in found]}
    emit(document, as_json=as_json, lines=[_line(each) for each in found if each.ok])
    if ok:
        return
    if as_json:
        raise typer.Exit(1)
    raise ArchiveError("\n".join(line for each in found for line in _finding_lines(each)))


def _chosen(given: list[Path]) -> list[Path]:
    chosen: list[Path] = []
    for path in given:
        inside = [path] if not path.is_dir() or path.name.endswith(_PREFIX) else _packages_in(path)
        if not inside:
            raise ArchiveError(
                f"{path}: got no *{_SUFFIX} and no *{_PREFIX} in that folder; allowed packages; check the path"
            )
        chosen += inside
    return chosen


def _packages_in(folder: Path) -> list[Path]:
    return sorted([*folder.glob(f"*{_SUFFIX}"), *(path for path in folder.glob(f"*{_PREFIX}") if path.is_dir())])


def _finding_lines(found: Verification) -> list[str]:
    named = f"{found.archive.name}: "
    return [named + " ".join(finding.removeprefix(named).splitlines()) for finding in found.findings]


def _line(found: Verification) -> str:
    beside = "its manifest agrees" if found.manifest is not None else "no manifest beside it"
    served = f"{found.served.name} {found.served.version}" if found.served is not None else ""
    return f"ok: {served}; {found.archive.name}; {len(found.files)} files; sha256 {found.sha256}; {beside}"


def _document(found: Verification) -> dict[str, object]:
    return {
        "ok": found.ok,
        "archive": str(found.archive),
        "name": found.served.name if found.served is not None else None,
        "version": found.served.version if found.served is not None else None,
        "sha256": found.sha256,
        "size_bytes": found.size_bytes,
        "files": [entry.path for entry in found.files],
        "manifest": str(found.manifest) if found.manifest is not None else None,
        "findings": list(found.findings),
    }
