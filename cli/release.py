"""`streamhub release`: start, watch, hold, end and look back at releases."""

from __future__ import annotations

import getpass
import os
from typing import Annotated, Any

import typer

from cli.output import JsonFlag, emit
from lambdas.release.controller import Controller
from lambdas.release.outcome import Status, Step
from lambdas.release.settings import Settings
from lambdas.release.wiring import from_environment
from serving.errors import ModelNotFoundError
from serving.release.audit import AuditEntry
from serving.release.policy import DEFAULT_POLICY
from serving.release.state import ReleaseRecord
from serving.release.statistics import sample_size as impressions_needed
from serving.spec import ModelSpec, endpoint_name
from serving.spec.codec import converter

app = typer.Typer(no_args_is_help=True, help="Releases of one stage (STREAMHUB_STAGE).")

Target = Annotated[str, typer.Argument(metavar="ENDPOINT", help="The endpoint, or the model it serves.")]
Actor = Annotated[str, typer.Option(help="Who asks; kept on record. Default: the user of this machine.")]
Reason = Annotated[str, typer.Option(help="Why; kept on record.")]


@app.command()
def start(
    target: Target,
    *,
    version: Annotated[str, typer.Option(help="The version to release; it must be in the other slot.")],
    policy: Annotated[str, typer.Option(help="Whose thresholds: spec or demo.")] = DEFAULT_POLICY,
    actor: Actor = "",
    as_json: JsonFlag = False,
) -> None:
    """Start a release; the next tick gives it its first traffic."""
    model, controller = _find(target)
    record = controller.start(model.name, version=version, actor=_who(actor), policy=policy)
    ramp = ", ".join(f"{share:.0%}" for share in model.release.ramp)
    against = f"{record.production_version} in slot {record.production}"
    emit(
        {"release": _plain(record)},
        as_json=as_json,
        lines=[
            f"release {record.release_id}: {record.challenger_version} in slot {record.challenger} against {against}",
            f"shares {ramp}; the next tick moves the first traffic (streamhub release tick {record.model})",
        ],
    )


@app.command()
def status(target: Target, *, as_json: JsonFlag = False) -> None:
    """Say where a release is, what it waits for, and whether the endpoint follows; changes nothing."""
    model, controller = _find(target)
    found = controller.status(model.name)
    if found is None:
        lines = [f"{model.name} never had a release: all traffic goes to slot a"]
        emit({"release": None, "decision": None}, as_json=as_json, lines=lines)
        return
    emit(_status_document(found), as_json=as_json, lines=_status_lines(found))


@app.command()
def tick(target: Target, *, as_json: JsonFlag = False) -> None:
    """Move a release on as far as its evidence allows, as the schedule does every five minutes."""
    model, controller = _find(target)
    step = controller.tick(model.name)
    if step is None:
        emit({"release": None, "decision": None}, as_json=as_json, lines=[f"{model.name} never had a release"])
        return
    _show(step, as_json=as_json)


@app.command()
def pause(target: Target, *, reason: Reason = "paused by hand", actor: Actor = "", as_json: JsonFlag = False) -> None:
    """Freeze a release at its share; only a broken guardrail moves it then."""
    model, controller = _find(target)
    _show(controller.pause(model.name, actor=_who(actor), reason=reason), as_json=as_json)


@app.command()
def resume(target: Target, *, reason: Reason = "resumed by hand", actor: Actor = "", as_json: JsonFlag = False) -> None:
    """Let a paused release go on."""
    model, controller = _find(target)
    _show(controller.resume(model.name, actor=_who(actor), reason=reason), as_json=as_json)


@app.command()
def promote(target: Target, *, reason: Reason, actor: Actor = "", as_json: JsonFlag = False) -> None:
    """Promote by hand, whatever the evidence says."""
    model, controller = _find(target)
    _show(controller.promote(model.name, actor=_who(actor), reason=reason), as_json=as_json)


@app.command()
def rollback(
    target: Target, *, reason: Reason = "rolled back by hand", actor: Actor = "", as_json: JsonFlag = False
) -> None:
    """Give all traffic back to the slot that had it before the release, also after a promotion."""
    model, controller = _find(target)
    _show(controller.rollback(model.name, actor=_who(actor), reason=reason), as_json=as_json)


@app.command()
def history(
    target: Target,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many transitions, newest first.")] = 20,
    as_json: JsonFlag = False,
) -> None:
    """Show what happened, who did it and why."""
    model, controller = _find(target)
    entries = controller.history(model.name, limit=limit)
    document = {"model": model.name, "transitions": [_transition(entry) for entry in entries]}
    emit(document, as_json=as_json, lines=[entry.line for entry in entries] or [f"{model.name} never had a release"])


@app.command()
def sample_size(
    *,
    base: Annotated[float, typer.Option(help="Click rate of production, as 0.05.")],
    uplift: Annotated[float, typer.Option(help="True relative uplift to be found, as 0.02.")],
    share: Annotated[float, typer.Option(help="The challenger's share of traffic.")] = 0.5,
    power: Annotated[float, typer.Option(help="Chance to find it.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="Chance to find what is not there.")] = 0.05,
    design_effect: Annotated[float, typer.Option(help="By how much clicks of one unit hang together; 1: not.")] = 1.0,
    as_json: JsonFlag = False,
) -> None:
    """Say how many impressions, of both slots together, a fixed-size one-sided test needs."""
    _refuse_outside({"base": base, "share": share, "power": power, "alpha": alpha}, low=0.0, high=1.0)
    _refuse_outside({"uplift": uplift}, low=0.0, high=1 / base - 1)
    needed = design_effect * impressions_needed(base, uplift, share=share, alpha=alpha, power=power)
    emit(
        {"impressions": round(needed), "challenger_impressions": round(needed * share)},
        as_json=as_json,
        lines=[
            f"{needed:,.0f} impressions, {needed * share:,.0f} of them of the challenger",
            "a bound that may be read at any time needs 1.0 to 1.7 times as many (docs/releases.md)",
        ],
    )


def _refuse_outside(values: dict[str, float], *, low: float, high: float) -> None:
    for name, value in values.items():
        if not low < value < high:
            raise typer.BadParameter(f"{name}: got {value:g}; allowed more than {low:g} and less than {high:g}")


def _find(target: str) -> tuple[ModelSpec, Controller]:
    settings, controller = from_environment()
    return find_model(settings, target), controller


def find_model(settings: Settings, target: str) -> ModelSpec:
    """Give the model that an argument means: its name, its slug or its endpoint.

    Raises:
        ModelNotFoundError: it is none of them, in this stage.

    """
    models = [settings.specs.models[name] for name in sorted(settings.stage.models)]
    for model in models:
        if target in {model.name, model.slug, endpoint_name(settings.stage.name, model.slug)}:
            return model
    known = ", ".join(model.name for model in models)
    raise ModelNotFoundError(f"endpoint: got {target!r}; allowed {known}, or their endpoints in {settings.stage.name}")


def _who(actor: str) -> str:
    return actor or os.environ.get("STREAMHUB_ACTOR") or getpass.getuser()


def _show(step: Step, *, as_json: bool) -> None:
    record, decision = step.record, step.decision
    said = {"kind": decision.kind.value, "text": decision.text} if decision is not None else None
    lines = [_headline(record)]
    lines += [f"{decision.kind.value}: {decision.rule}"] if decision is not None else []
    lines += [f"  {gate.line}" for gate in decision.reasons] if decision is not None else []
    emit(
        {"release": _plain(record), "moved": step.moved, "decision": said, "notes": list(step.notes)},
        as_json=as_json,
        lines=[*lines, *(f"note: {note}" for note in step.notes)],
    )


def _headline(record: ReleaseRecord) -> str:
    return (
        f"release {record.release_id} of {record.model}: {record.state.value}; {record.challenger_version} in slot "
        f"{record.challenger} has {record.share:.0%}, {record.production_version} in slot {record.production} the rest"
    )


def _status_document(found: Status) -> dict[str, object]:
    view, evidence = found.endpoint, found.evidence
    return {
        "release": _plain(found.record),
        "decision": {
            "kind": found.decision.kind.value,
            "text": found.decision.text,
            "gates": converter().unstructure(found.decision.reasons),
        },
        "endpoint": {
            "status": view.status.status if view.status is not None else None,
            "weights": view.weights,
            "wanted": dict(found.weights),
            "diverged": found.diverged,
            "note": view.note or found.note,
        },
        "evidence": None
        if evidence is None
        else {
            name: {"impressions": arm.total_impressions, "clicks": arm.total_clicks, "errors": arm.total_errors}
            for name, arm in (("production", evidence.control), ("challenger", evidence.challenger))
        },
    }


def _status_lines(found: Status) -> list[str]:
    record, decision, view = found.record, found.decision, found.endpoint
    state = view.status.status if view.status is not None else f"unknown ({view.note})"
    follows = "weights differ from the record; they follow at InService" if found.diverged else "weights as recorded"
    return [
        _headline(record),
        f"last move {record.updated_at:%Y-%m-%d %H:%M:%S} UTC by {record.actor}: {record.reason}",
        f"endpoint {state}: {follows}",
        f"a tick now would {decision.kind.value}: {decision.rule}",
        *(f"  {gate.line}" for gate in decision.reasons),
        *([f"note: {found.note}"] if found.note else []),
    ]


def _transition(entry: AuditEntry) -> dict[str, Any]:
    decision, record = entry.decision, entry.record
    return {
        "version": record.version,
        "release_id": record.release_id,
        "at": record.updated_at.isoformat(),
        "from": entry.before.state.value if entry.before is not None else None,
        "to": record.state.value,
        "share": record.share,
        "actor": record.actor,
        "reason": record.reason,
        "gates": converter().unstructure(decision.reasons) if decision is not None else [],
    }


def _plain(record: ReleaseRecord) -> dict[str, Any]:
    document: dict[str, Any] = converter().unstructure(record)
    return document
