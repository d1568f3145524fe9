"""`streamhub context`: a TorchServe archive or a bento as the build context of an image for SageMaker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from cli.progress import progress_bar
from model_packaging.container import WrittenContext, write_context


def command(
    *,
    source: Annotated[Path, typer.Argument(help="A .mar, a folder with MAR-INF/, or the folder of a built bento.")],
    base: Annotated[str, typer.Option(help="The image to build on, by digest: NAME[:TAG]@sha256:…")],
    api: Annotated[
        str | None, typer.Option(help="Which API of a bento answers /invocations, if it has several.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the context's folder goes.")] = Path("dist"),
    as_json: JsonFlag = False,
) -> None:
    """Check a TorchServe archive or a bento and write a Docker build context; the same inputs give the same files."""
    with progress_bar(source.name) as progress:
        made = write_context(source, base=base, out_dir=out, api=api, progress=progress)
    emit(_document(made), as_json=as_json, lines=_lines(made))


def _document(made: WrittenContext) -> dict[str, object]:
    return {
        "path": str(made.path),
        "server": made.app.server,
        "name": made.app.name,
        "version": made.app.version,
        "invocations": made.app.invocations,
        "sha256": made.written.sha256,
        "size_bytes": made.written.size_bytes,
        "files": [
            {"path": entry.path, "size_bytes": entry.size_bytes, "sha256": entry.sha256} for entry in made.written.files
        ],
    }


def _lines(made: WrittenContext) -> list[str]:
    return [
        f"{made.path}  {made.written.size_bytes} bytes  sha256 {made.written.sha256}",
        f"{made.app.server}: /invocations is answered by {made.app.invocations}",
    ]
