"""What the demo shows while it runs: a table of scenes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

_REFRESHED_A_SECOND = 8
_BAR_COLUMNS = 30


class Display(Protocol):
    """Told what happens; shows it."""

    def begin(self, title: str) -> None:
        """Begin a scene."""

    def say(self, text: str) -> None:
        """Tell what the scene does, or saw."""

    def advance(self, done: int, total: int) -> None:
        """Tell how many of the requests of this moment are answered."""

    def end(self, title: str, *, kept: bool, seconds: float, seen: str) -> None:
        """End a scene."""


class Lines:
    """A line for each thing said: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, title: str) -> None:
        """Print the title."""
        self._print(title)

    def say(self, text: str) -> None:
        """Print the text, indented."""
        self._print(f"  {text}")

    def advance(self, done: int, total: int) -> None:
        """Print nothing: a line a request is no progress."""

    def end(self, title: str, *, kept: bool, seconds: float, seen: str) -> None:
        """Print how it ended."""
        self._print(f"  {'done' if kept else 'NOT AS PROMISED'}: {title}, {seconds:.1f} s: {seen}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


@dataclass(slots=True)
class _Row:
    title: str
    started: float | None = None
    seconds: float | None = None
    kept: bool | None = None
    text: str = ""


@dataclass(slots=True)
class Board:
    """All scenes at once, with a bar for the requests of this moment; drawn anew by whoever shows it."""

    titles: Sequence[str]
    _rows: dict[str, _Row] = field(init=False)
    _now: _Row | None = field(default=None, init=False)
    _requests: tuple[int, int] = field(default=(0, 0), init=False)
    _spinner: Spinner = field(default_factory=lambda: Spinner("dots"), init=False)

    def __post_init__(self) -> None:
        """Lay out one row a scene."""
        self._rows = {title: _Row(title) for title in self.titles}

    def begin(self, title: str) -> None:
        """Let the row's time run."""
        self._now = self._rows[title]
        self._now.started, self._requests = time.monotonic(), (0, 0)

    def say(self, text: str) -> None:
        """Show the text in the row of the scene that runs."""
        if self._now is not None:
            self._now.text = text

    def advance(self, done: int, total: int) -> None:
        """Move the bar."""
        self._requests = (done, total)

    def end(self, title: str, *, kept: bool, seconds: float, seen: str) -> None:
        """Show how the scene ended."""
        row = self._rows[title]
        row.seconds, row.kept, row.text, self._now = seconds, kept, seen, None

    def __rich__(self) -> RenderableType:
        """Draw."""
        table = Table.grid(padding=(0, 1))
        for row in self._rows.values():
            table.add_row(self._mark(row), Text(row.title, style="" if row.started else "dim"), *_figures(row))
        done, total = self._requests
        if self._now is None or done >= total:
            return table
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            "  ", ProgressBar(total=total, completed=done, width=_BAR_COLUMNS), f"{done:,} of {total:,} requests"
        )
        return Group(table, bar)

    def _mark(self, row: _Row) -> RenderableType:
        if row.kept is not None:
            return Text("✓", style="green") if row.kept else Text("✗", style="red")
        return self._spinner if row is self._now else Text("·", style="dim")


def _figures(row: _Row) -> tuple[RenderableType, RenderableType]:
    seconds = row.seconds
    if seconds is None and row.started is not None:
        seconds = time.monotonic() - row.started
    shown = f"{seconds:5.1f} s" if seconds is not None else ""
    return Text(shown, justify="right", style="dim"), Text(row.text, overflow="ellipsis", no_wrap=True)


@contextmanager
def shown_on(console: Console, titles: Sequence[str]) -> Iterator[Display]:
    """Give the display that suits a console."""
    if not console.is_terminal:
        yield Lines(console)
        return
    board = Board(titles)
    with Live(board, console=console, refresh_per_second=_REFRESHED_A_SECOND, transient=False):
        yield board
