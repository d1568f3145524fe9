"""The demo succeeds only when everything it promises was seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from rich.console import Console

from cli.demo.clock import DemoClock
from cli.demo.result import DemoResult, DriftWindow
from cli.demo.summary import table
from cli.demo.traffic import Answer, Ask

WINDOW = DriftWindow(label="drifted", score=0.9, drifted_share=0.2, worst_feature="activity", alarm_state="ALARM")


def good() -> DemoResult:
    result = DemoResult(stage="dev", decision="promote", windows=[WINDOW])
    result.models = [{"name": "recommendation_ranker", "version": "3.0.0", "digest": "f" * 64}]
    result.by_phase = {"canary": {"a": 90, "b": 10}}
    return result


def test_a_good_story_is_as_promised() -> None:
    assert good().as_promised


@pytest.mark.parametrize("decision", ["inconclusive", "roll-back", "none"])
def test_another_end_of_the_release_is_not(decision: str) -> None:
    result = good()
    result.decision = decision
    assert not result.as_promised


def test_a_silent_alarm_is_not() -> None:
    result = good()
    result.windows = [replace(WINDOW, alarm_state="OK")]
    assert not result.as_promised


@pytest.mark.parametrize(("status", "errors"), [(200, 0), (503, 0), (500, 1), (504, 1), (422, 1)])
def test_only_sheds_are_no_errors(status: int, errors: int) -> None:
    result = good()
    result.count(Answer(ask=Ask(route="/v1/rank", body={}), status=status, latency_ms=3.0, document={}))
    assert (result.requests, result.errors, result.as_promised) == (1, errors, errors == 0)


def test_the_document_splits_what_the_canary_saw() -> None:
    document = good().document()
    assert document["by_variant"] == {"a": 90, "b": 10}
    assert document["drift"] == {"alarm": True, "score": 0.9, "feature": "activity"}


def test_the_summary_says_share_decision_and_alarm() -> None:
    console = Console(width=120, record=True, file=None)
    with console.capture() as shown:
        console.print(table(good()))
    text = shown.get()
    assert "b: 10 (10.0%)" in text
    assert "promote" in text
    assert "alarm ALARM" in text


def test_the_clock_moves_on_and_never_back() -> None:
    clock = DemoClock()
    before = clock()
    clock.move_on(timedelta(days=1))
    assert clock() - before >= timedelta(days=1)
    with pytest.raises(ValueError, match="allowed 0 or more"):
        clock.move_on(timedelta(seconds=-1))
