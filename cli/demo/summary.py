"""The demo's last words on the terminal: every promise, what was seen, and whether that is it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.demo.result import DemoResult


def table(result: DemoResult) -> RenderableType:
    """Give the promises of each scene with their figures, then the run's own."""
    shown = Table(title="What the demo saw", title_justify="left", show_header=False, pad_edge=False)
    shown.add_column("kept", no_wrap=True)
    shown.add_column("promise", overflow="fold", ratio=1)
    shown.add_column("seen", overflow="fold", ratio=1)
    for scene in result.scenes:
        shown.add_row("", Text(scene.title, style="bold"), Text(f"{scene.seconds:.1f} s", style="bold"))
        for promise in scene.promises:
            mark = Text("✓", style="green") if promise.kept else Text("✗", style="bold red")
            shown.add_row(mark, Text(promise.text), Text(promise.seen))
    for title in result.planned[len(result.scenes) :]:
        shown.add_row(Text("✗", style="bold red"), Text(title, style="bold"), Text("never came", style="red"))
    return Group(shown, *(Text(line) for line in _lines(result)))


def _lines(result: DemoResult) -> list[str]:
    total = result.total
    answered = f"{total.answered:,} answered ({total.degraded:,} degraded)"
    rest = f"{total.shed:,} shed, {total.errors:,} refused, {total.lost:,} lost"
    lines = [f"{total.sent:,} requests: {answered}, {rest}; {result.outcomes.answered:,} clicks"]
    for route, latency in result.routes.items():
        lines.append(f"{route}: p50 {latency.p50} ms, p90 {latency.p90} ms, p99 {latency.p99} ms on this machine")
    if result.shortened:
        lines.append(f"shortened by --fast: {'; '.join(result.shortened)}")
    lines.append(f"{result.wall_s:.0f} s, {'all as promised' if result.as_promised else 'NOT as promised'}")
    lines.append(f"report: {result.report}")
    if result.kept_in is not None:
        lines.append(f"page: {result.page_url}; end it with streamhub local down --state {result.kept_in}")
    return lines
