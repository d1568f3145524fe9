"""Which window a scheduled run looks at, and which events it takes."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lambdas.drift.handler import read_event
from lambdas.drift.settings import Settings, read_settings
from lambdas.drift.wiring import last_window_end
from serving.errors import SpecError, TelemetryError
from serving.spec import ModelSpec, StageSpec
from serving.spec.bundle import SpecBundle
from serving.spec.codec import converter

NAME = "recommendation_ranker"


@pytest.fixture(name="settings")
def settings_fixture(root: Path) -> Settings:
    model = converter().structure(tomllib.loads((root / "models" / NAME / "model.toml").read_text()), ModelSpec)
    stage = converter().structure(tomllib.loads((root / "stages/dev.toml").read_text()), StageSpec)
    bundle = SpecBundle(models={NAME: model}, stages={"dev": stage})
    return Settings(stage=stage, specs=bundle, telemetry_bucket="t", registry_bucket="r")


@pytest.mark.parametrize(("at", "end"), [((10, 7), (10, 0)), ((10, 4), (9, 0)), ((10, 5), (10, 0)), ((11, 4), (10, 0))])
def test_a_window_is_read_when_its_captures_had_time_to_arrive(at: tuple[int, int], end: tuple[int, int]) -> None:
    found = last_window_end(datetime(2026, 1, 5, *at, tzinfo=UTC), 3600)
    assert found == datetime(2026, 1, 5, *end, tzinfo=UTC)


def test_an_event_may_repeat_one_window_of_one_slot(settings: Settings) -> None:
    event = {"model": NAME, "slot": "b", "window_end": "2026-01-05T10:00:00Z"}
    assert read_event(event, settings) == (NAME, ("b",), datetime(2026, 1, 5, 10, tzinfo=UTC))


def test_the_schedules_event_means_both_slots(settings: Settings) -> None:
    model, slots, _ = read_event({"model": NAME}, settings)
    assert (model, slots) == (NAME, ("a", "b"))


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"model": "nobody"},
        {"model": NAME, "slot": "c"},
        {"model": NAME, "window_end": "yesterday"},
        {"model": NAME, "window_end": "2026-01-05T10:00:00"},
        {"model": NAME, "window_end": 5},
    ],
)
def test_other_events_are_refused(settings: Settings, event: dict[str, object]) -> None:
    with pytest.raises(TelemetryError, match=r"event: .*got .*; "):
        read_event(event, settings)


def test_all_missing_names_of_the_environment_come_at_once() -> None:
    with pytest.raises(SpecError) as refusal:
        read_settings({})
    assert [problem.key for problem in refusal.value.problems] == [
        "STREAMHUB_STAGE",
        "STREAMHUB_TELEMETRY_BUCKET",
        "STREAMHUB_REGISTRY_BUCKET",
    ]
