"""`streamhub demo`: the whole life of a model on this machine."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.demo import summary
from cli.demo.display import Display, shown_on
from cli.demo.pace import FAST, FULL, Pace
from cli.demo.result import DemoResult
from cli.demo.story import RANKER, STAGE, Story, planned
from cli.output import JsonFlag, emit, progress_console
from local.stack import LocalStack
from serving.spec.load import Project, load_project

STATE = Path(".streamhub/demo")


def command(
    *,
    fast: Annotated[bool, typer.Option("--fast", help="Fewer looks and faults, less traffic; it says what.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up, and say where its page is.")] = False,
    state: Annotated[Path, typer.Option(help="Folder of the stack's state, its logs and the report.")] = STATE,
    as_json: JsonFlag = False,
) -> None:
    """Deploy, serve, release a better and a worse version, meet faults, notice drift; exit 1 if one went otherwise."""
    started = time.perf_counter()
    project, pace = load_project(Path.cwd()), FAST if fast else FULL
    titles = planned(keep=keep)
    result = DemoResult(stage=STAGE, pace=pace.name, planned=titles, shortened=pace.shortened)
    with ThreadPoolExecutor(max_workers=1) as beside, shown_on(progress_console, titles) as display:
        # what draws takes longest to import: while the stack comes up, nobody waits for it
        beside.submit(importlib.import_module, "cli.demo.report")
        for text in pace.shortened:
            display.say(f"shortened: {text}")
        _play(project, result, pace=pace, keep=keep, state=state, display=display)
    result.wall_s = time.perf_counter() - started
    min_uplift = project.model(RANKER).release.min_uplift
    from cli.demo import report  # noqa: PLC0415 - see above

    result.report = report.write(result, project.models, min_uplift=min_uplift, to=state.resolve() / "report.html")
    if as_json:
        emit(result.document(), as_json=True)
    else:
        Console().print(summary.table(result))
    if not result.as_promised:
        raise typer.Exit(1)


def _play(project: Project, result: DemoResult, *, pace: Pace, keep: bool, state: Path, display: Display) -> None:
    stack = LocalStack(state, project.root, on_progress=display.say, detached=keep, fresh=pace.deploys)
    with _ended_unless(stack, keep=keep):
        story = Story(project, stack, result, state_dir=state, pace=pace, display=display)
        story.tell()
        if keep:
            result.page_url, result.kept_in = stack.page_url, state
        else:
            story.take_down()


@contextlib.contextmanager
def _ended_unless(stack: LocalStack, *, keep: bool) -> Iterator[None]:
    """Stop the stack at the end, and always when the end is an error or an interrupt."""
    try:
        yield
    except BaseException:
        stack.stop()
        raise
    if not keep:
        stack.stop()
