"""A progress bar of bytes on stderr, where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from cli.output import progress_console


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Give what is told the bytes that are done, and those there are."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    silent = not progress_console.is_terminal
    with Progress(*columns, console=progress_console, transient=True, disable=silent) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
