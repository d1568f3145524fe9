"""`streamhub check`: every problem of every spec and stage before anything is built, then what to know of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from serving.errors import SpecError
from serving.spec import HostingMode, in_stage
from serving.spec.load import Project, load_project
from serving.spec.rules.capture import CaptureVolume, capture_volume


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Data capture of one endpoint of a model in one stage, at its busiest all day; `percent` is of the requests."""

    stage: str
    model: str
    percent: int
    kept_days: int
    volume: CaptureVolume

    def __str__(self) -> str:
        """Give it in one line."""
        volume = self.volume
        return (
            f"capture: {self.stage} {self.model} {self.percent}%: at most {volume.requests_a_day:,.0f} requests and "
            f"{volume.gb_a_day:,.1f} GB a day, kept {self.kept_days} days about {volume.usd_a_month:,.2f} USD a month"
        )


def command(
    *,
    stage: Annotated[str | None, typer.Option(help="Only this stage's warnings and captures; it must exist.")] = None,
    root: Annotated[Path, typer.Option(help="The project folder.")] = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Validate specs and stages; print every problem at once, or the warnings and the volume of data capture."""
    try:
        project = load_project(root)
    except SpecError as error:
        if as_json:
            problems = [asdict(problem) for problem in error.problems]
            emit({"ok": False, "problems": problems, "warnings": [], "captures": []}, as_json=True)
            raise typer.Exit(1) from error
        raise
    if stage is not None:
        project.stage(stage)
    elsewhere = {f"stages/{name}.toml" for name in project.stages if stage not in {None, name}}
    warnings = [found for found in project.warnings if found.file not in elsewhere]
    captured = [found for found in captures(project) if stage in {None, found.stage}]
    models, stages = sorted(project.models), sorted(project.stages)
    emit(
        {
            "ok": True,
            "problems": [],
            "warnings": [asdict(found) for found in warnings],
            "captures": [asdict(found) for found in captured],
            "models": models,
            "stages": stages,
        },
        as_json=as_json,
        lines=[
            *(f"warning: {found}" for found in warnings),
            *map(str, captured),
            f"ok: models {', '.join(models)}; "
            + (f"stages {', '.join(stages)}" if stages else "no stage yet: write stages/<name>.toml (docs/specs.md)"),
        ],
    )


def captures(project: Project) -> Iterator[Capture]:
    """Give the captures of every stage: of real-time endpoints and of their shadows, which capture all they see."""
    for name, stage in sorted(project.stages.items()):
        for model_name, entry in stage.models.items():
            model = in_stage(project.models[model_name], entry)
            shares = {model_name: model.drift.capture_percent if model.hosting.mode is HostingMode.REALTIME else 0}
            shares[f"{model_name} shadow"] = entry.shadow.sampling_percent if entry.shadow is not None else 0
            for endpoint, percent in shares.items():
                if percent > 0:
                    kept_days = stage.captures_kept_days
                    volume = capture_volume(model, percent=percent, kept_days=kept_days)
                    yield Capture(stage=name, model=endpoint, percent=percent, kept_days=kept_days, volume=volume)
