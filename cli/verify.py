"""`streamhub verify`: whether its container would serve an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from model_packaging.verify import Verification, verify
from serving.errors import ArchiveError


def command(*, archive: Annotated[Path, typer.Argument(help="A model.tar.gz.")], as_json: JsonFlag = False) -> None:
    """Open an archive as its container would, check it, and run its sample."""
    found = verify(archive)
    if as_json:
        emit(_document(found), as_json=True)
    if not found.ok:
        if as_json:
            raise typer.Exit(1)
        named = f"{archive.name}: "
        raise ArchiveError("\n".join(named + finding.removeprefix(named) for finding in found.findings))
    if not as_json and found.served is not None:
        beside = "its manifest agrees" if found.manifest is not None else "no manifest beside it"
        line = f"ok: {found.served.name} {found.served.version}; {len(found.files)} files; sha256 {found.sha256}"
        emit({}, as_json=False, lines=[f"{line}; {beside}"])


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
