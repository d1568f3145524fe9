"""`streamhub demo`: the whole life of a model on this machine."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cli.demo import report, summary
from cli.demo.result import DemoResult
from cli.demo.story import FAST, FULL, RANKER, tell
from cli.output import JsonFlag, emit, progress_console
from serving.spec.load import load_project

STATE = Path(".streamhub/demo")


def command(
    *,
    fast: Annotated[bool, typer.Option("--fast", help="Less traffic: under a minute.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Tell the whole story: package, register, deploy, serve, release by evidence, notice drift."""
    root = Path.cwd()
    project = load_project(root)
    result = DemoResult(stage="dev")
    with _ended_by_signals(), _progress() as say:
        tell(project, result, pace=FAST if fast else FULL, state_dir=root / STATE, say=say)
    ranker = project.model(RANKER)
    result.report = report.write(
        result,
        dict(project.models),
        alarm_size=ranker.drift.alarm_size,
        min_uplift=ranker.release.min_uplift,
        to=root / STATE / "report.html",
    )
    if as_json:
        emit(result.document(), as_json=True)
    else:
        Console().print(summary.table(result))
    if not result.as_promised:
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show the step that runs and for how long; where nobody looks, print a line a step."""
    if not progress_console.is_terminal:
        yield lambda text: progress_console.print(text, markup=False, highlight=False)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=progress_console, transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda text: progress.update(task, description=text)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Leave by the same way when asked to end as when interrupted, so that the stack is stopped."""

    def end(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
