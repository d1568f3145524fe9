"""`streamhub drift`: compare a window with a version's baseline, and show the baseline."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from cli.output import JsonFlag, emit
from lambdas.drift.settings import Settings
from lambdas.drift.wiring import from_environment, last_window_end
from serving.aws.clock import now
from serving.errors import ModelNotFoundError
from serving.spec import Slot, endpoint_name
from serving.spec.codec import converter
from serving.telemetry.drift import DriftReport
from serving.telemetry.monitor_documents import describe

app = typer.Typer(no_args_is_help=True, help="Drift of one stage's models (STREAMHUB_STAGE).")

Model = Annotated[str, typer.Argument(metavar="MODEL", help="The model, or its endpoint.")]
SlotOption = Annotated[str, typer.Option(help="The slot, a or b.")]


@app.command()
def run(
    model: Model,
    *,
    slot: SlotOption = "a",
    window_end: Annotated[
        str, typer.Option(help="The window's end, ISO 8601; default: the last window that is complete.")
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Compare one window's captured requests with the baseline of the version that answered."""
    settings, drift = from_environment()
    name = _model(settings, model)
    end = _time(window_end) if window_end else last_window_end(now(), settings.specs.models[name].drift.window_s)
    report = drift.run(name, _slot(slot), window_end=end)
    document = {
        **converter().unstructure(report),
        "max_score": report.max_score,
        "drifted_share": report.drifted_share,
    }
    emit(document, as_json=as_json, lines=_lines(report))


@app.command()
def baseline(model: Model, *, slot: SlotOption = "a", as_json: JsonFlag = False) -> None:
    """Show the watched part of the baseline that a slot's version was registered with."""
    settings, drift = from_environment()
    name = _model(settings, model)
    version, found = drift.baseline(name, _slot(slot))
    lines = [f"{name} {version}: {found.rows} reference rows"]
    lines += [
        f"  {feature.name}: {feature.edges[0]:.4g} to {feature.edges[-1]:.4g} in {len(feature.edges) - 1} bins, "
        f"{feature.missing} missing"
        for feature in found.features
    ]
    emit({"model": name, "version": version, "baseline": found.to_dict()}, as_json=as_json, lines=lines)


def _lines(report: DriftReport) -> list[str]:
    window = report.window
    when = f"{window.start:%Y-%m-%d %H:%M} to {window.end:%Y-%m-%d %H:%M} UTC"
    return [
        f"{window.model} {window.version} in slot {window.slot}, {when}: {report.verdict.value}",
        report.text,
        f"{report.rows} rows of {report.requests} requests; {report.unreadable} captured records could not be read",
        *(f"  {describe(feature)}" for feature in report.features),
    ]


def _model(settings: Settings, target: str) -> str:
    for name in sorted(settings.stage.models):
        slug = settings.specs.models[name].slug
        if target in {name, slug, endpoint_name(settings.stage.name, slug)}:
            return name
    raise ModelNotFoundError(
        f"model: got {target!r}; allowed {', '.join(sorted(settings.stage.models))}, or their endpoints in "
        f"{settings.stage.name}"
    )


def _slot(text: str) -> Slot:
    if text == "a":
        return "a"
    if text == "b":
        return "b"
    raise typer.BadParameter(f"--slot: got {text!r}; allowed a or b")


def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"--window-end: got {text!r}; allowed ISO 8601, as 2026-01-05T10:00:00Z") from error
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
