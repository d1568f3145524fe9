"""The scheduled run: `{"model": NAME}`, and optionally `"slot"` and `"window_end"` (ISO 8601) for a repeat."""

from __future__ import annotations

import json
import logging
from datetime import datetime
from functools import cache
from typing import Any

from lambdas.drift.run import Drift
from lambdas.drift.settings import Settings
from lambdas.drift.wiring import from_environment, last_window_end
from serving.aws.clock import now
from serving.errors import TelemetryError
from serving.spec import SLOTS, Slot
from serving.telemetry.drift import DriftReport

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)


@cache
def _wired() -> tuple[Settings, Drift]:
    return from_environment()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Run one window of both slots; a slot without traffic says so and fails nothing.

    Raises:
        TelemetryError: the event names no model, slot or time, or the run fails.
        ModelNotFoundError: the stage has no such model.

    """
    del context
    settings, drift = _wired()
    model, slots, window_end = read_event(event, settings)
    reports = [drift.run(model, slot, window_end=window_end) for slot in slots]
    said = [_said(report) for report in reports]
    log.info(json.dumps(said))
    return {"reports": said}


def read_event(event: dict[str, Any], settings: Settings) -> tuple[str, tuple[Slot, ...], datetime]:
    """Give model, slots and window end of an event.

    Raises:
        TelemetryError: one of them is none.

    """
    model, slot, end = event.get("model"), event.get("slot"), event.get("window_end")
    if not isinstance(model, str) or model not in settings.stage.models:
        raise TelemetryError(
            f"event: model: got {model!r}; allowed {', '.join(sorted(settings.stage.models))}; name one of these"
        )
    if slot not in (None, *SLOTS):
        raise TelemetryError(f"event: slot: got {slot!r}; allowed a or b; leave it out for both")
    if end is None:
        return model, _slots(slot), last_window_end(now(), settings.specs.models[model].drift.window_s)
    try:
        window_end = datetime.fromisoformat(end)
    except (TypeError, ValueError):
        window_end = None
    if window_end is None or window_end.tzinfo is None:
        raise TelemetryError(f"event: window_end: got {end!r}; allowed ISO 8601 with a zone, as 2026-01-05T10:00:00Z")
    return model, _slots(slot), window_end


def _slots(slot: str | None) -> tuple[Slot, ...]:
    return tuple(one for one in SLOTS if slot in (None, one))


def _said(report: DriftReport) -> dict[str, Any]:
    return {
        "model": report.window.model,
        "slot": report.window.slot,
        "version": report.window.version,
        "window_end": report.window.end.isoformat(),
        "verdict": report.verdict.value,
        "text": report.text,
        "rows": report.rows,
        "max_score": report.max_score,
    }
