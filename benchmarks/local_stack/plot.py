"""The picture of a run: the p50 of each way, and the CPU behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.local_stack.figures import WAYS, Sample, medians

_COLOURS = ("#9aa4b2", "#1f6feb", "#c8ccd2")
_INK = "#24292f"
_WIDE_IN, _HIGH_IN = 8, 2.2


def draw(samples: Sequence[Sample], path: Path) -> None:
    """Write the picture; the ending of the path says its format."""
    lone = {each.way: each for each in medians(samples) if each.clients == 1}
    with mpl.rc_context({"svg.hashsalt": "streamhub", "font.size": 9, "text.color": _INK, "axes.labelcolor": _INK}):
        figure = Figure(figsize=(_WIDE_IN, _HIGH_IN), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2)
        _bars(left, [lone[way].p50_ms for way in WAYS], "{:.2f}", "p50 of one client, ms\nless is better")
        cpu_us = [lone[way].server_cpu_us + lone[way].client_cpu_us for way in WAYS]
        _bars(right, cpu_us, "{:,.0f}", "CPU a request, servers and client, us\nless is better")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _bars(axes: Axes, values: Sequence[float], form: str, title: str) -> None:
    bars = axes.barh(WAYS, values, color=_COLOURS, height=0.7)
    axes.bar_label(bars, [form.format(value) for value in values], padding=3, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_title(title, fontsize=9, loc="left")
