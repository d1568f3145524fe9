"""The demo's report: one HTML file with its plots inside, readable on a phone, in light and dark."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cli.demo.result import DemoResult, machine
from serving.spec import ModelSpec

A, B, LINE, GOOD = "#5b8def", "#f2994a", "#8a94a6", "#27ae60"


def write(result: DemoResult, models: dict[str, ModelSpec], *, alarm_size: float, min_uplift: float, to: Path) -> Path:
    """Write the report and give its path; the file appears whole or not at all."""
    plots = {
        "split": _svg(lambda ax: _split(ax, result)),
        "uplift": _svg(lambda ax: _uplift(ax, result, min_uplift)),
        "latency": _svg(lambda ax: _latency(ax, result, models)),
        "drift": _svg(lambda ax: _drift(ax, result, alarm_size)),
    }
    environment = Environment(loader=PackageLoader("cli.demo", "."), autoescape=select_autoescape(default=True))
    html = environment.get_template("report.html.j2").render(
        result=result, document=result.document(), routes=result.routes(), plots=plots, machine=machine()
    )
    to.parent.mkdir(parents=True, exist_ok=True)
    partial = to.with_suffix(".partial")
    partial.write_text(html, encoding="utf-8")
    os.replace(partial, to)  # noqa: PTH105 # atomic on one file system, which Path.replace says less plainly
    return to


def _svg(draw: Callable[[Axes], None]) -> Markup:
    # text as paths: the page needs no font and no network
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "streamhub", "font.size": 9}):
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        axes = figure.subplots()
        figure.patch.set_alpha(0)
        axes.patch.set_alpha(0)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for part in (*axes.spines.values(),):
            part.set_color(LINE)
        axes.tick_params(colors=LINE)
        axes.xaxis.label.set_color(LINE)
        axes.yaxis.label.set_color(LINE)
        draw(axes)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return Markup(text[text.index("<svg") :])  # noqa: S704 # matplotlib's own markup, no user text in it


def _split(ax: Axes, result: DemoResult) -> None:
    names = list(result.by_phase)
    totals = [max(1, sum(result.by_phase[name].values())) for name in names]
    shares = [result.by_phase[name].get("b", 0) / total for name, total in zip(names, totals, strict=True)]
    ax.barh(names, [1 - share for share in shares], color=A, label="a (v2)")
    ax.barh(names, shares, left=[1 - share for share in shares], color=B, label="b (v3)")
    for row, (share, total) in enumerate(zip(shares, totals, strict=True)):
        ax.text(0.01, row, f"{share:.1%} of {total:,} on b", va="center", color="white", fontsize=8)
    ax.set_xlim(0, 1)
    ax.set_xlabel("share of ranker requests")
    ax.invert_yaxis()
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=2, frameon=False, labelcolor=LINE)


def _uplift(ax: Axes, result: DemoResult, min_uplift: float) -> None:
    looks = [look for look in result.looks if look.estimate is not None]
    for stage in sorted({look.stage for look in looks}):
        mine = [look for look in looks if look.stage == stage]
        xs = [look.impressions for look in mine]
        colour = (A, B)[stage % 2]
        ax.plot(xs, [look.estimate or 0.0 for look in mine], "o-", color=colour, ms=3, label=f"stage {stage}: estimate")
        ax.fill_between(
            xs,
            [look.lower if look.lower is not None else -1.0 for look in mine],
            [look.upper if look.upper is not None else 1.0 for look in mine],
            color=colour,
            alpha=0.2,
            label="always-valid bounds",
        )
    ax.axhline(0, color=LINE, lw=0.8)
    ax.axhline(min_uplift, color=GOOD, lw=1, ls="--", label=f"asked for: {min_uplift:.0%}")
    ax.set_ylim(-1, 2)
    ax.set_xlabel("impressions in the stage")
    ax.set_ylabel("relative uplift of CTR")
    ax.legend(frameon=False, fontsize=7, labelcolor=LINE)


def _latency(ax: Axes, result: DemoResult, models: dict[str, ModelSpec]) -> None:
    routes = result.routes()
    budgets = {model.api.route: model.slo.p99_ms for model in models.values()}
    for row, (route, latency) in enumerate(routes.items()):
        ax.plot([latency.p50, latency.p99], [row, row], color=A, lw=4, solid_capstyle="round")
        ax.plot([latency.p90], [row], "|", color="white", ms=9)
        if route in budgets:
            ax.plot([budgets[route]], [row], "d", color=B, ms=6, label="endpoint p99 budget" if row == 0 else None)
    ax.set_xscale("log")
    ax.set_yticks(range(len(routes)), list(routes))
    ax.invert_yaxis()
    ax.set_xlabel("ms as the client saw it, p50 to p99 (mark: p90)")
    ax.legend(frameon=False, fontsize=7, labelcolor=LINE)


def _drift(ax: Axes, result: DemoResult, alarm_size: float) -> None:
    labels = [window.label for window in result.windows]
    colours = [B if window.score > alarm_size else A for window in result.windows]
    ax.bar(labels, [window.score for window in result.windows], color=colours, width=0.5)
    ax.axhline(alarm_size, color=GOOD, lw=1, ls="--", label=f"alarm above {alarm_size:g}")
    for x, window in enumerate(result.windows):
        ax.text(x, window.score, f"{window.alarm_state}", ha="center", va="bottom", color=LINE, fontsize=8)
    ax.set_ylabel("largest debiased PSI")
    ax.margins(y=0.2)
    ax.legend(frameon=False, fontsize=7, labelcolor=LINE)
