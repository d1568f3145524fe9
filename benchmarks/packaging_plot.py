"""Draws what `bench packaging` and `bench push` found: `python -m benchmarks.packaging_plot benchmarks/results`.

The folder has packaging.json and push.json, as `--json` prints them; packaging.svg is written beside them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import orjson
from matplotlib.axes import Axes
from matplotlib.figure import Figure

OURS, PEER, OTHER, LINE = "#5b8def", "#f2994a", "#8a94a6", "#57606a"
_GB = 10**9
_MIB = 1 << 20
_BAR = 0.38


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: what it is called, how long it is, and its colour."""

    label: str
    value: float
    colour: str


def rates(packaging: Sequence[Mapping[str, Any]], push: Sequence[Mapping[str, Any]]) -> dict[str, list[Bar]]:
    """Give MB/s by size and command, slowest peers last."""
    groups: dict[str, list[Bar]] = {}
    for each in packaging:
        bars = [Bar("package", each["ours_mb_s"], OURS), Bar("compressor alone", each["compressor_mb_s"], PEER)]
        if each["tar_czf_mb_s"] is not None:
            bars.append(Bar("tar czf", each["tar_czf_mb_s"], OTHER))
        groups[f"package, {_size(each)}"] = bars
    for each in push:
        groups[f"push, {_size(each)}"] = [
            Bar("registry push", each["ours_mb_s"], OURS),
            Bar("aws s3 cp", each["aws_mb_s"], PEER),
        ]
    return groups


def peaks(packaging: Sequence[Mapping[str, Any]], push: Sequence[Mapping[str, Any]]) -> dict[str, list[Bar]]:
    """Give peak memory in MiB by size and command."""
    told = ((packaging, "package", "compressor", "compressor alone"), (push, "push", "aws", "aws s3 cp"))
    return {
        f"{what}, {_size(each)}": [
            Bar(what if what == "package" else "registry push", each["ours_peak_rss_bytes"] / _MIB, OURS),
            Bar(peer, each[f"{key}_peak_rss_bytes"] / _MIB, PEER),
        ]
        for reports, what, key, peer in told
        for each in reports
    }


def draw(packaging: Mapping[str, Any], push: Mapping[str, Any]) -> Figure:
    """Draw both documents of one machine."""
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _bars(left, rates(packaging["packaging"], push["push"]), "MB/s (more is better)")
    _bars(right, peaks(packaging["packaging"], push["push"]), "peak memory, MiB (less is better)")
    machine = packaging["machine"]
    figure.supxlabel(
        f"{machine['system']}, {machine['cpus']} cores, Python {machine['python']}", color=LINE, fontsize=8
    )
    return figure


def _size(report: Mapping[str, Any]) -> str:
    return f"{report['size_bytes'] / _GB:g} GB"


def _bars(axes: Axes, groups: Mapping[str, Sequence[Bar]], unit: str) -> None:
    at, middles = 0.0, []
    most = max(bar.value for bars in groups.values() for bar in bars)
    for bars in groups.values():
        middles.append(at + _BAR * (len(bars) - 1) / 2)
        for bar in bars:
            axes.barh(at, bar.value, height=_BAR * 0.9, color=bar.colour)
            axes.text(bar.value + most / 100, at, f"{bar.label} {bar.value:.0f}", va="center", color=LINE, fontsize=7)
            at += _BAR
        at += _BAR
    axes.set_yticks(middles, list(groups))
    axes.set_xlim(0, most * 1.45)  # room for the words behind the longest bar
    axes.set_xlabel(unit, color=LINE)
    axes.tick_params(colors=LINE)
    axes.invert_yaxis()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main(folder: Path) -> None:
    """Draw the documents of a folder into packaging.svg."""
    documents = [orjson.loads((folder / name).read_bytes()) for name in ("packaging.json", "push.json")]
    # the same documents give the same file
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "streamhub", "font.size": 9}):
        draw(*documents).savefig(folder / "packaging.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
