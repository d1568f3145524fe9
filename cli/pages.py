"""Pages that a command leaves behind: one HTML file with its plots inside, for light and dark, without a network."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

A, B, LINE, GOOD, BAD = "#5b8def", "#f2994a", "#8a94a6", "#27ae60", "#eb5757"
"""Colours that are legible on white and on black: slot a, slot b, axes, good, bad."""

_WIDTH, _HEIGHT = 6.4, 3.2


def svg(draw: Callable[[Axes], None], *, height: float = _HEIGHT) -> Markup:
    """Draw one plot, so many inches high, on whatever background the page has; the same plot is the same bytes."""
    # text as paths: the page needs no font and no network
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "streamhub", "font.size": 9}):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.subplots()
        figure.patch.set_alpha(0)
        axes.patch.set_alpha(0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(LINE)
        axes.tick_params(colors=LINE)
        axes.xaxis.label.set_color(LINE)
        axes.yaxis.label.set_color(LINE)
        draw(axes)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return Markup(text[text.index("<svg") :])  # noqa: S704 # matplotlib's own markup, no user text in it


def write_page(to: Path, *, package: str, template: str, **context: object) -> Path:
    """Write a page from a template of a package and give its path; the file appears whole or not at all."""
    environment = Environment(
        loader=PackageLoader(package, "."), autoescape=select_autoescape(default=True), undefined=StrictUndefined
    )
    html = environment.get_template(template).render(context)
    to.parent.mkdir(parents=True, exist_ok=True)
    partial = to.with_suffix(".partial")
    partial.write_text(html, encoding="utf-8")
    os.replace(partial, to)  # noqa: PTH105 # atomic on one file system, which Path.replace says less plainly
    return to
