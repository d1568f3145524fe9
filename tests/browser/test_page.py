"""The local stack's page as people use it: in a real browser, by keyboard, on a phone, in the dark."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from local.page.document import Problem, State
from local.page.traffic import Burst
from tests.browser.visits import DESKTOP, IN_CHROMIUM, PHONE, Visitor
from tests.fakes.page import (
    NOW,
    RANKER,
    alarm,
    empty_state,
    endpoint,
    feature,
    full_state,
    point,
    release,
    variant,
    window,
)

HOSTILE = "<img src=x onerror=alert(1)>&amp;'\"</script><script>alert(2)</script>"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
TARGET_PX = 44
"""WCAG 2.2, 2.5.5 Target Size (Enhanced)."""

pytestmark = IN_CHROMIUM


def problems_of_fit(page: Page) -> list[str]:
    found: list[str] = page.evaluate(
        """(least) => [...document.querySelectorAll("button, input, select, summary, nav a, footer a")]
            .filter((e) => e.getClientRects().length && (e.offsetHeight < least || e.offsetWidth < least))
            .map((e) => `small: ${e.outerHTML}`)
          .concat([...document.querySelectorAll(".card *")]
            .filter((e) => e.getBoundingClientRect().right > e.closest(".card").getBoundingClientRect().right + 1)
            .map((e) => `outside its card: ${e.outerHTML}`))""",
        TARGET_PX,
    )
    return found


@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "light"), (DESKTOP, "dark")])
def test_all_of_a_stack_fits_its_window_is_accessible_and_stays_at_home(
    visit: Visitor, width: int, scheme: str
) -> None:
    seen = visit(width=width, scheme=scheme)
    page = seen.page
    page.get_by_role("button", name="Send traffic").click()
    expect(page.locator("#traffic-result table")).to_be_visible()
    page.get_by_role("button", name="Inject the fault").click()
    expect(page.get_by_role("button", name="Remove the fault slow:*")).to_be_visible()
    page.locator("#alarms summary").first.click()
    results = Axe().run(page, options={"runOnly": RULES})
    assert results.violations_count == 0, results.generate_report()
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems_of_fit(page) == []
    assert seen.faults == []
    home = f"http://127.0.0.1:{seen.server.port}/_streamhub"
    assert [url for url in seen.asked if not url.startswith(home)] == []


def test_every_part_of_the_document_is_on_the_page(visit: Visitor) -> None:
    seen = visit()
    assert "b: p99 over budget" in seen.text("#endpoints")
    assert "1 → 2" in seen.text("#endpoints")
    assert "A tick now would hold: waiting for time" in seen.text("#releases")
    assert "2.1 h of at least 24.0 h" in seen.text("#releases")
    assert "No release yet: content_moderator, thumbnail_scorer." in seen.text("#releases")
    assert "Drifted" in seen.text("#drift")
    assert "for 4 min" in seen.text("#alarms")
    assert "1 alarm that only scales" in seen.text("#alarms")
    assert "No fault is in force." in seen.text("#faults")
    assert "of 5" in seen.text("#overview")


def test_each_plot_says_its_newest_numbers_and_has_them_all_in_a_table(visit: Visitor) -> None:
    page = visit().page
    plots = page.locator("figure svg[role=img]")
    assert plots.count() == 2
    for index in range(plots.count()):
        figure = page.locator("figure").nth(index)
        assert "Newest: " in str(plots.nth(index).get_attribute("aria-label"))
        figure.locator("summary").click()
        assert figure.locator("tbody tr").count() >= 12


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_a_line_of_latency_breaks_where_a_minute_had_no_traffic(visit: Visitor, width: int) -> None:
    def drawn(*seconds_ago: int) -> tuple[list[int], int]:
        one = replace(variant("a", "2.0.0", 1.0, p99_ms=6.0), points=[point(ago, p99_ms=6.0) for ago in seconds_ago])
        at = NOW + timedelta(seconds=len(seen.asked))
        seen.show(replace(full_state(), at=at, endpoints=[endpoint(RANKER, "recommendation_ranker", 12.0, one)]))
        expect(seen.page.locator("#place")).to_contain_text(f"{at:%H:%M:%S}")
        figure = seen.page.locator("#endpoints figure svg.plot")
        lines = [str(line.get_attribute("d")) for line in figure.locator("path.line").all()]
        assert len(lines) == 2, "p50 and p99"
        return [line.count("M") for line in lines], figure.locator("circle.dot").count()

    seen = visit(width=width)
    assert drawn(90, 75, 60, 45, 30, 15) == ([1, 1], 2)
    assert drawn(90, 75, 15) == ([1, 1], 2), "three quiet periods are no minute"
    assert drawn(300, 285, 210, 195, 30, 15) == ([3, 3], 2)
    assert drawn(300, 285, 210, 30, 15) == ([3, 3], 4), "a point that no line reaches has a mark"
    assert "A line breaks where there was no traffic for a minute." in seen.text("#endpoints figcaption")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems_of_fit(seen.page) == []
    assert seen.faults == []


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_a_release_that_ended_shows_the_gates_that_ended_it(visit: Visitor, width: int) -> None:
    ended = replace(release(), state="rolled-back", terminal=True, decision="roll-back", rule="a guardrail is broken")
    seen = visit(replace(full_state(), releases=[ended]), width=width)
    gates = seen.page.get_by_role("table", name="Gates of the release of recommendation_ranker")
    assert gates.locator("tbody tr").count() == len(ended.gates)
    assert "p99 31.0 ms, production's 8.2 ms" in gates.inner_text()
    assert "It ended with these gates: a guardrail is broken" in seen.text("#releases")
    assert "A tick now" not in seen.text("#releases")
    results = Axe().run(seen.page, options={"runOnly": RULES})
    assert results.violations_count == 0, results.generate_report()
    assert problems_of_fit(seen.page) == []
    seen.show(replace(full_state(), releases=[replace(ended, gates=[])]))
    expect(gates).to_have_count(0)
    assert "ended with" not in seen.text("#releases")


def test_traffic_and_faults_need_no_mouse(visit: Visitor) -> None:
    seen = visit()
    page, keys = seen.page, seen.page.keyboard

    def tab_to(selector: str) -> None:
        for _ in range(60):
            keys.press("Tab")
            if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline == "solid"
                return
        raise AssertionError(f"no Tab leads to {selector}")

    keys.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    keys.press("Enter")
    tab_to("#traffic-requests")
    keys.press("Control+a")
    keys.type("8")
    keys.press("Enter")
    expect(page.locator("#traffic-said")).to_have_text("6 of 8 requests answered 200, in 0.2 s.")
    assert page.evaluate("document.activeElement.id") == "traffic-requests"
    assert seen.script.sender.sent == [Burst(target="route:/v1/rank", requests=8, clients=4)]
    tab_to("#fault-kind")
    keys.type("throttle")
    expect(page.locator("#fault-does")).to_contain_text("ThrottlingException")
    keys.press("Tab")
    keys.type(RANKER)
    tab_to("#fault-share")
    keys.press("Enter")
    expect(page.locator("#fault-said")).to_contain_text("Injected throttle:")
    assert [(fault.kind, fault.endpoint) for fault in seen.script.faults.all()] == [("throttle", RANKER)]
    page.locator("#faults-heading").focus()
    tab_to("#faults-body button")
    keys.press("Enter")
    expect(page.locator("#faults-body")).to_have_text("No fault is in force.")
    assert page.evaluate("document.activeElement.id") == "faults-heading"
    assert seen.script.faults.all() == ()
    assert seen.faults == []


def hostile_state() -> State:
    one = replace(variant("a", HOSTILE, 1.0, p99_ms=5.0), name=HOSTILE)
    told = replace(
        release(), model=HOSTILE, release_id=HOSTILE, actor=HOSTILE, reason=HOSTILE, rule=HOSTILE, note=HOSTILE
    )
    return replace(
        full_state(),
        stage=HOSTILE,
        endpoints=[replace(endpoint(HOSTILE, HOSTILE, 12.0, one, status=HOSTILE), failure=HOSTILE)],
        releases=[replace(told, gates=[replace(gate, name=HOSTILE, text=HOSTILE) for gate in told.gates])],
        models_without_release=[HOSTILE],
        drift=[replace(window(), model=HOSTILE, text=HOSTILE, verdict=HOSTILE, features=[feature(HOSTILE, 0.3)])],
        alarms=[alarm(HOSTILE, "ALARM", minutes=1, reason=HOSTILE)],
        targets=[replace(target, label=HOSTILE, id=HOSTILE) for target in full_state().targets],
        problems=[Problem(part="alarms", text=HOSTILE)],
    )


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_hostile_names_are_text_and_break_nothing(visit: Visitor, width: int) -> None:
    seen = visit(hostile_state(), width=width)
    assert seen.text("#endpoints h3") == HOSTILE
    assert HOSTILE in seen.text("#alarms")
    assert seen.page.locator("main img, main script, body > script").count() == 0
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.faults == []


def test_names_as_long_as_they_may_be_break_no_layout(visit: Visitor) -> None:
    long = "x" * 300
    state = replace(
        hostile_state(),
        endpoints=[endpoint(long, long, 12.0, replace(variant("a", "1.0.0", 1.0, p99_ms=5.0), name=long[:63]))],
        drift=[replace(window(), features=[feature(long, 0.3)])],
        alarms=[alarm(long, "ALARM", minutes=1, reason=long)],
    )
    seen = visit(state, width=PHONE)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_nothing_deployed_is_said_in_each_part(visit: Visitor) -> None:
    seen = visit(empty_state(), width=PHONE)
    assert "the stage is not deployed" in seen.text("#endpoints")
    assert "No release yet" in seen.text("#releases")
    assert "No drift run yet" in seen.text("#drift")
    assert "No alarms yet" in seen.text("#alarms")
    assert "no latency" not in seen.text("#overview")
    seen.page.get_by_role("button", name="Send traffic").click()
    assert seen.script.sender.sent == []


def test_a_part_that_cannot_be_read_says_so_where_it_would_be(visit: Visitor) -> None:
    seen = visit(replace(full_state(), problems=[Problem(part="drift", text="bucket gone")], left_off={"alarms": 7}))
    assert "could not be read just now" in seen.text("#drift")
    assert "bucket gone" in seen.text("#drift")
    assert "7 more are not shown." in seen.text("#alarms")
    assert "bucket gone" not in seen.text("#alarms")
