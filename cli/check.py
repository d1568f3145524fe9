"""`streamhub check`: every problem of every spec and stage, before anything is built."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from serving.errors import SpecError
from serving.spec.load import load_project


def command(
    *,
    stage: Annotated[str | None, typer.Option(help="Also require that this stage exists.")] = None,
    root: Annotated[Path, typer.Option(help="The project folder.")] = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Validate specs and stages; print every problem at once."""
    try:
        project = load_project(root)
    except SpecError as error:
        if as_json:
            emit({"ok": False, "problems": [asdict(problem) for problem in error.problems]}, as_json=True)
            raise typer.Exit(1) from error
        raise
    if stage is not None:
        project.stage(stage)
    models, stages = sorted(project.models), sorted(project.stages)
    emit(
        {"ok": True, "problems": [], "models": models, "stages": stages},
        as_json=as_json,
        lines=[f"ok: models {', '.join(models)}; stages {', '.join(stages)}"],
    )
