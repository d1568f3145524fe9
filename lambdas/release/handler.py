"""The scheduled tick: one step of every release in the stage."""

from __future__ import annotations

import json
import logging
from functools import cache
from typing import Any

from lambdas.release.controller import Controller
from lambdas.release.outcome import Step
from lambdas.release.wiring import from_environment
from serving.errors import ReleaseError, StreamHubError

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)


@cache
def _wired() -> tuple[tuple[str, ...], Controller]:
    settings, controller = from_environment()
    return tuple(sorted(settings.stage.models)), controller


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Tick all models of the stage; one that fails does not keep the others from theirs.

    Raises:
        ReleaseError: at least one failed; the run counts as failed, so that its alarm says so.

    """
    del event, context
    models, controller = _wired()
    steps, failed = tick_all(models, controller)
    if failed:
        raise ReleaseError("; ".join(failed))
    return {"steps": steps}


def tick_all(models: tuple[str, ...], controller: Controller) -> tuple[list[dict[str, Any]], list[str]]:
    """Tick every model; give what was done and what failed."""
    steps, failed = [], []
    for model in models:
        try:
            step = controller.tick(model)
        except StreamHubError as error:
            failed.append(f"{model}: {error}")
            continue
        except Exception as error:  # the edge: other models' guardrails must not depend on this one
            log.exception("tick of %s", model)
            failed.append(f"{model}: {error!r}")
            continue
        if step is not None:
            steps.append(_said(step))
            log.info(json.dumps(steps[-1]))
    return steps, failed


def _said(step: Step) -> dict[str, Any]:
    decision = step.decision
    return {
        "model": step.record.model,
        "release_id": step.record.release_id,
        "state": step.record.state.value,
        "share": step.record.share,
        "moved": step.moved,
        "decision": decision.kind.value if decision is not None else None,
        "why": decision.text if decision is not None else "",
        "notes": list(step.notes),
    }
