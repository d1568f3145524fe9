"""The picture of a run: CPU a request on the left, the highest rate within the budget on the right."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.serving.models import RANKER
from benchmarks.serving.peers import NOOP, OURS
from benchmarks.serving.results import Results
from benchmarks.serving.wires import Kind

_OURS, _FLOOR, _PEER = "#1f6feb", "#9aa4b2", "#c8ccd2"
_INK = "#24292f"
_WIDE_IN, _HIGH_IN = 10, 4.2


def draw(results: Results, path: Path) -> None:
    """Write the picture; the ending of the path says its format."""
    with mpl.rc_context({"svg.hashsalt": "streamhub", "font.size": 9, "text.color": _INK, "axes.labelcolor": _INK}):
        figure = Figure(figsize=(_WIDE_IN, _HIGH_IN), layout="constrained", facecolor="white")
        left, middle, right = figure.subplots(1, 3, width_ratios=(3, 3, 2))
        _cpu(left, results, "json")
        _cpu(middle, results, "binary")
        _rates(right, results)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _cpu(axes: Axes, results: Results, kind: Kind) -> None:
    found: dict[str, float] = {}
    for each in results.closed:
        cell = each.cell
        if (cell.model, cell.kind, cell.clients) == (RANKER.name, kind, 32):
            found[cell.peer] = min(each.cpu_us, found.get(cell.peer, each.cpu_us))
    _bars(axes, found)
    axes.set_xscale("log")
    axes.set_title(f"CPU a request, {kind}, 32 clients: µs, log scale\nless is better", fontsize=9, loc="left")


def _rates(axes: Axes, results: Results) -> None:
    found = {each.peer: each.rate for each in results.open if each.model == RANKER.name and each.rate is not None}
    _bars(axes, found, most_first=True)
    axes.set_title(f"requests/s with p90 ≤ {RANKER.budget_ms:g} ms\nmore is better", fontsize=9, loc="left")


def _bars(axes: Axes, values: dict[str, float], *, most_first: bool = False) -> None:
    names = sorted(values, key=lambda name: values[name], reverse=not most_first)
    colours = [_OURS if name == OURS else _FLOOR if name == NOOP else _PEER for name in names]
    bars = axes.barh(names, [values[name] for name in names], color=colours, height=0.7)
    axes.bar_label(bars, [f"{values[name]:,.0f}" for name in names], padding=3, fontsize=8)
    axes.margins(x=0.22)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
