"""The demo succeeds only when every scene came and kept its promises; counts add up."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from cli.demo.clock import DemoClock
from cli.demo.display import Lines, shown_on
from cli.demo.pace import FAST, FULL
from cli.demo.promises import Promise
from cli.demo.result import DemoResult, Scene
from cli.demo.story import TAKE_DOWN, planned
from cli.demo.summary import table
from cli.demo.tally import Tally
from cli.demo.traffic import LOST, Answer, Ask

KEPT = Promise(text="it works", seen="5 of 5", kept=True)
BROKEN = Promise(text="it works too", seen="4 of 5", kept=False)


def result(*scenes: Scene, shortened: tuple[str, ...] = ()) -> DemoResult:
    return DemoResult(
        stage="dev",
        pace="full",
        planned=("one", "two"),
        shortened=shortened,
        scenes=list(scenes),
        report=Path("r.html"),
    )


def scene(title: str, *promises: Promise) -> Scene:
    return Scene(title=title, seconds=1.5, promises=promises)


def answer(status: int, **document: object) -> Answer:
    return Answer(ask=Ask(route="/v1/rank", body={}), status=status, latency_ms=3.0, document=dict(document))


def printed(of: DemoResult) -> str:
    console = Console(width=120)
    with console.capture() as shown:
        console.print(table(of))
    return shown.get()


def test_every_scene_that_keeps_its_promises_is_success() -> None:
    assert result(scene("one", KEPT), scene("two", KEPT, KEPT)).as_promised


def test_one_broken_promise_is_none() -> None:
    assert not result(scene("one", KEPT), scene("two", KEPT, BROKEN)).as_promised


def test_a_scene_that_never_came_is_none() -> None:
    assert not result(scene("one", KEPT)).as_promised
    assert "two" in printed(result(scene("one", KEPT)))
    assert "never came" in printed(result(scene("one", KEPT)))


def test_a_scene_shows_what_broke_before_what_was_seen() -> None:
    assert scene("one", KEPT, BROKEN).seen == "it works too: 4 of 5"
    assert scene("one", KEPT).seen == "5 of 5"


def test_the_summary_and_the_document_say_what_was_left_out() -> None:
    short = result(scene("one", KEPT), scene("two", BROKEN), shortened=("one fault of three",))
    assert "one fault of three" in printed(short)
    document = orjson.loads(orjson.dumps(short.document()))
    assert document["shortened"] == ["one fault of three"]
    assert document["as_promised"] is False
    assert [(played["title"], played["kept"]) for played in document["scenes"]] == [("one", True), ("two", False)]


def test_fast_says_what_it_leaves_out_and_the_whole_demo_leaves_nothing_out() -> None:
    assert FULL.shortened == ()
    assert FAST.shortened != ()
    assert set(FAST.outages) < set(FULL.outages)


def test_a_stack_that_is_kept_is_not_taken_down() -> None:
    assert planned(keep=False)[-1] == TAKE_DOWN
    assert TAKE_DOWN not in planned(keep=True)


def test_answers_are_counted_by_what_became_of_them() -> None:
    tally = Tally.of(
        [
            answer(200, model_version="2.0.0"),
            answer(200, model_version="3.0.0", degraded=["fallback_model"]),
            answer(503),
            answer(500),
            answer(422),
            answer(LOST),
        ]
    )
    assert (tally.sent, tally.answered, tally.degraded, tally.shed, tally.errors, tally.lost) == (6, 2, 1, 1, 2, 1)
    assert tally.by_version == {"2.0.0": 1, "3.0.0": 1}
    assert tally.reasons == {"fallback_model": 1}
    assert not tally.all_answered
    assert tally.share("3.0.0") == 0.5


def test_two_tallies_together_are_those_of_all_answers() -> None:
    first = [answer(200, model_version="2.0.0"), answer(503)]
    second = [answer(200, model_version="3.0.0", degraded=["fallback_model"]), answer(LOST)]
    assert Tally.of(first) + Tally.of(second) == Tally.of([*first, *second])


def test_no_answer_has_no_share() -> None:
    assert Tally().share("3.0.0") == 0.0


def test_a_pipe_gets_a_line_for_each_thing_said() -> None:
    console = Console(width=20, force_terminal=False)
    with console.capture() as shown, shown_on(console, ["one"]) as display:
        assert isinstance(display, Lines)
        display.begin("one")
        display.say("a text that is longer than the width of the console")
        display.advance(1, 2)
        display.end("one", kept=False, seconds=1.25, seen="4 of 5")
    lines = shown.get().splitlines()
    assert lines == [
        "one",
        "  a text that is longer than the width of the console",
        "  NOT AS PROMISED: one, 1.2 s: 4 of 5",
    ]


def test_a_terminal_gets_every_scene_and_the_requests_of_the_moment() -> None:
    console = Console(width=100, force_terminal=True, legacy_windows=False)
    with console.capture() as shown, shown_on(console, ["one", "two"]) as display:
        display.begin("one")
        display.advance(30, 120)
        console.print(display)
        display.end("one", kept=True, seconds=2.0, seen="5 of 5")
    text = shown.get()
    assert "30 of 120 requests" in text
    assert "two" in text
    assert "5 of 5" in text


def test_the_clock_moves_on_and_never_back() -> None:
    clock = DemoClock()
    before = clock()
    clock.move_on(timedelta(days=1))
    assert clock() - before >= timedelta(days=1)
    with pytest.raises(ValueError, match="allowed 0 or more"):
        clock.move_on(timedelta(seconds=-1))
