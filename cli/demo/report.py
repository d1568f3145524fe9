"""The demo's report: one HTML file with its plots inside, readable on a phone, in light and dark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from cli.demo import plots
from cli.demo.result import DemoResult, machine
from cli.pages import write_page
from serving.spec import ModelSpec


def write(result: DemoResult, models: Mapping[str, ModelSpec], *, min_uplift: float, to: Path) -> Path:
    """Write the report and give its path; the file appears whole or not at all. It shows the scenes that came."""
    drawn = _plots(result, models, min_uplift=min_uplift)
    return write_page(to, package="cli.demo", template="report.html.j2", result=result, plots=drawn, machine=machine())


def _plots(result: DemoResult, models: Mapping[str, ModelSpec], *, min_uplift: float) -> dict[str, Markup]:
    drawn = {"timeline": plots.timeline(result.scenes)}
    if result.better is not None:
        drawn["split"] = plots.split(result.better, result.worse)
        drawn["better"] = plots.uplift(result.better, min_uplift=min_uplift)
    if result.worse is not None:
        drawn["worse"] = plots.uplift(result.worse, min_uplift=min_uplift)
    if result.outages:
        drawn["faults"] = plots.faults(result.outages)
    if result.drift is not None:
        drawn["drift"] = plots.drift(result.drift)
    if result.routes:
        budgets_ms = {model.api.route: model.slo.p99_ms for model in models.values()}
        drawn["latency"] = plots.latency(result.routes, budgets_ms)
    return drawn
