"""The demo's last words on the terminal."""

from __future__ import annotations

from rich.table import Table

from cli.demo.result import DemoResult


def table(result: DemoResult) -> Table:
    """Give what the demo saw as one table: what happened, and the figure that says so."""
    shown = Table(title="What the demo saw", title_justify="left", show_header=False, pad_edge=False)
    shown.add_column("what", style="bold", no_wrap=True)
    shown.add_column("figure", overflow="fold")
    models = ", ".join(f"{model['name']} {model['version']}" for model in result.models)
    shown.add_row("models", models)
    shown.add_row("requests", f"{result.requests:,}, {result.errors} errors, {result.degraded} degraded")
    for phase, counts in result.by_phase.items():
        total = sum(counts.values())
        shares = ", ".join(f"{slot}: {count:,} ({count / total:.1%})" for slot, count in counts.items())
        shown.add_row(f"split, {phase}", shares)
    for route, latency in result.routes().items():
        shown.add_row(route, f"p50 {latency.p50} ms, p90 {latency.p90} ms, p99 {latency.p99} ms on this machine")
    shown.add_row("outcomes", f"{result.outcomes:,} clicks")
    shown.add_row("release", "; ".join((result.decision, *result.reasons[:1])))
    weights = ", ".join(f"{slot}: {weight:g}" for slot, weight in sorted(result.weights.items()))
    shown.add_row("weights", f"{weights}; alias production: {result.alias}")
    for window in result.windows:
        shown.add_row(
            f"drift, {window.label}", f"{window.worst_feature} {window.score:.2f}, alarm {window.alarm_state}"
        )
    shown.add_row("took", f"{sum(seconds for _, seconds in result.steps):.0f} s")
    shown.add_row("report", str(result.report))
    return shown
