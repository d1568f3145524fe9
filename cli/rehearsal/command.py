"""`streamhub local rehearse`: a week of a release in seconds, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import orjson
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cli.output import JsonFlag, emit, progress_console
from cli.rehearsal.scenario import FAULTS, SCENARIOS, fault_of
from serving.errors import ModelNotFoundError, ReleaseError, TelemetryError
from serving.spec import ModelSpec
from serving.spec.codec import from_json, to_json
from serving.spec.load import Project, load_project

if TYPE_CHECKING:
    from cli.rehearsal.score import Checkpoint, Hour, Settings
    from serving.telemetry.baseline import Baseline

REPORT = Path(".streamhub/rehearsal/report.html")
_MOST_DAYS = 60.0


def rehearse(
    model: Annotated[str, typer.Argument(help="The model, as in models/.")],
    *,
    version: Annotated[str, typer.Option(help="The version to release, as if slot b of the stage held it.")],
    scenario: Annotated[str, typer.Option(help=f"How it really is: {', '.join(SCENARIOS)}.")] = "better",
    days: Annotated[float, typer.Option(help="How long the play is, up to 60.")] = 7.0,
    seed: Annotated[int, typer.Option(min=0, help="Draws people and requests.")] = 0,
    fault: Annotated[
        list[str] | None, typer.Option(help=f"KIND@DAY, any number of times; kinds: {', '.join(FAULTS)}.")
    ] = None,
    qps: Annotated[float | None, typer.Option(help="Requests a second at the peak; the spec's without.")] = None,
    stage: Annotated[str, typer.Option(help="Whose counts and slot a.")] = "dev",
    keep: Annotated[Path | None, typer.Option(help="File to go on from, and to keep the end in.")] = None,
    report: Annotated[Path, typer.Option(help="Where the page goes.")] = REPORT,
    root: Annotated[Path, typer.Option(help="The project folder.")] = Path(),
    as_json: JsonFlag = False,
) -> None:
    """Play a release over the real controller: exit 0 promoted, 3 rolled back, 4 inconclusive, 5 no verdict yet."""
    from cli.rehearsal.report import write  # noqa: PLC0415 - numpy, boto3 and matplotlib load only when it plays
    from cli.rehearsal.score import Settings, document_of, exit_code  # noqa: PLC0415

    project = load_project(root)
    spec = _checked(project, model, version=version, scenario=scenario, days=days, stage=stage)
    settings = Settings(
        model=model,
        version=version,
        stage=stage,
        scenario=scenario,
        seed=seed,
        peak_qps=_rate(qps if qps is not None else spec.slo.peak_qps),
        faults=tuple(fault_of(text) for text in fault or ()),
    )
    with _progress(days) as on_hour:
        end = _play(settings, project, spec, days=days, keep=keep, on_hour=on_hour)
    page = write(end, spec, to=report)
    document = document_of(end)
    emit(document, as_json=as_json, lines=[*_lines(end), f"page: {page}"])
    if code := exit_code(end):
        raise typer.Exit(code)


def _play(
    settings: Settings,
    project: Project,
    model: ModelSpec,
    *,
    days: float,
    keep: Path | None,
    on_hour: Callable[[Hour], None],
) -> Checkpoint:
    from cli.rehearsal.play import Play  # noqa: PLC0415

    start = _kept(keep, settings) if keep is not None and keep.exists() else None
    play = Play(
        settings,
        model=model,
        stage=project.stage(settings.stage),
        baseline=baseline_of(project, model, settings.version),
        start=start,
    )
    end = play.run(days, on_hour=on_hour)
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        scratch = keep.with_suffix(".partial")
        scratch.write_bytes(to_json(end))
        scratch.replace(keep)
    return end


def baseline_of(project: Project, model: ModelSpec, version: str) -> Baseline:
    """Give what the version's inputs looked like in training; nothing where it has no baseline.

    Raises:
        TelemetryError: the file is no baseline.

    """
    from serving.telemetry.baseline import Baseline, baseline_from_dict  # noqa: PLC0415

    named = model.versions[version].baseline
    if named == "":
        return Baseline(rows=0, features=())
    path = project.root / "models" / model.name / named
    try:
        return baseline_from_dict(orjson.loads(path.read_bytes()))
    except orjson.JSONDecodeError as error:
        raise TelemetryError(f"{path}: got {error}; allowed a baseline; make it with make_baseline") from error


def _kept(path: Path, settings: Settings) -> Checkpoint:
    from cli.rehearsal.score import Checkpoint  # noqa: PLC0415

    def refuse(got: object) -> NoReturn:
        raise ReleaseError(f"{path}: got {got}; allowed what a rehearsal of these settings kept; name another file")

    try:
        found = from_json(path.read_bytes(), Checkpoint)
    except ValueError as error:
        refuse(error)
    if found.settings != settings:
        refuse(found.settings)
    return found


def _checked(project: Project, name: str, *, version: str, scenario: str, days: float, stage: str) -> ModelSpec:
    """Give the model, or refuse what cannot be played, all of it at once."""
    held = project.stage(stage).models
    if name not in held:
        raise ModelNotFoundError(f"model: got {name!r}; allowed {', '.join(sorted(held))}; name one of stage {stage}")
    model = project.model(name)
    wrong = []
    if version not in model.versions:
        wrong.append(f"version: got {version}; allowed {', '.join(model.versions)}")
    if scenario not in SCENARIOS:
        wrong.append(f"scenario: got {scenario}; allowed {', '.join(SCENARIOS)}")
    if not 0 < days <= _MOST_DAYS:
        wrong.append(f"days: got {days:g}; allowed above 0, up to {_MOST_DAYS:g}")
    if wrong:
        raise ReleaseError(f"{'; '.join(wrong)}; correct the options")
    return model


def _rate(qps: float) -> float:
    if not 0 < qps <= 1e6:  # noqa: PLR2004 - counts of a week stay far below 2^63
        raise ReleaseError(f"qps: got {qps:g}; allowed above 0, up to 1000000; correct the option")
    return float(qps)


@contextmanager
def _progress(days: float) -> Iterator[Callable[[Hour], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    silent = not progress_console.is_terminal
    with Progress(*columns, console=progress_console, transient=True, disable=silent) as progress:
        task = progress.add_task("day 0", total=days)

        def show(hour: Hour) -> None:
            said = f"day {hour.day:.1f}: {hour.state}, {hour.share:.0%}"
            progress.update(task, completed=hour.day, description=said)

        yield show


def _lines(end: Checkpoint) -> list[str]:
    moves = [entry.line.partition(": ") for entry in end.entries]
    return [f"{head}: {why.partition(': ')[0]}" for head, _, why in moves] + list(end.notes)
