"""The local stack's page while things change: what stays as it was, what is said, when the stack goes and comes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from playwright.sync_api import expect

from tests.browser.visits import IN_CHROMIUM, Visitor
from tests.fakes.page import NOW, RANKER, full_state

pytestmark = IN_CHROMIUM


def test_a_stack_that_goes_away_is_said_to_be_gone_and_found_again(visit: Visitor) -> None:
    seen = visit()
    page = seen.page
    seen.server.go_away()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#connection-text")).to_have_text("The stack does not answer.")
    expect(page.locator("#lost")).to_contain_text("What is below is as of 10:00:00 UTC. The page tries again")
    assert RANKER in seen.text("#endpoints")
    page.get_by_role("button", name="Send traffic").click()
    expect(page.locator("#traffic-said")).to_have_text("Not done: The stack does not answer.")
    seen.script.state = replace(full_state(), at=NOW + timedelta(minutes=9))
    seen.server.come_back()
    expect(page.locator("#connection-text")).to_have_text("Connected again", timeout=15_000)
    expect(page.locator("#lost")).to_be_hidden()
    assert "10:09:00" in seen.text("#place")


def test_a_stack_of_another_version_asks_to_load_the_page_again(visit: Visitor) -> None:
    seen = visit()
    seen.show(replace(full_state(), version=2))
    expect(seen.page.locator("#connection-text")).to_contain_text("load it again")


def test_a_stack_that_went_away_and_came_back_as_another_version_asks_to_load_the_page_again(visit: Visitor) -> None:
    seen = visit()
    seen.server.go_away()
    seen.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(seen.page.locator("#connection-text")).to_have_text("The stack does not answer.")
    seen.script.state = replace(full_state(), version=2)
    seen.server.come_back()
    expect(seen.page.locator("#connection-text")).to_contain_text("load it again", timeout=15_000)


def test_what_the_page_cannot_show_is_not_called_a_stack_that_does_not_answer(visit: Visitor) -> None:
    seen = visit()
    seen.show(replace(full_state(), endpoints=[None]))  # type: ignore[list-item]
    expect(seen.page.locator("#connection-text")).to_contain_text("cannot show what the stack answered")
    assert len(seen.faults) == 1  # told in the console, for who looks into it
    seen.show(full_state())
    expect(seen.page.locator("#connection-text")).to_have_text("Connected again")


def test_a_refusal_is_said_in_the_stacks_own_words(visit: Visitor) -> None:
    seen = visit()
    seen.script.sender.refusal = "burst: another one is under way; wait until it is over"
    seen.page.get_by_role("button", name="Send traffic").click()
    expect(seen.page.locator("#traffic-said")).to_have_text(f"Not done: {seen.script.sender.refusal}")


def test_what_changes_leaves_focus_choices_and_open_details_alone(visit: Visitor) -> None:
    seen = visit()
    page = seen.page
    page.locator("#endpoints figure summary").click()
    page.locator("#traffic-target").select_option(f"endpoint:{RANKER}")
    page.locator("#fault-kind").select_option("unhealthy")
    page.locator("#alarms summary").first.focus()
    state = full_state()
    seen.show(
        replace(state, at=NOW + timedelta(minutes=1), endpoints=list(reversed(state.endpoints)), alarms=state.alarms)
    )
    expect(page.locator("#place")).to_contain_text("10:01:00")
    assert page.locator("#endpoints details").get_attribute("open") is not None
    assert page.locator("#traffic-target").input_value() == f"endpoint:{RANKER}"
    assert page.locator("#fault-kind").input_value() == "unhealthy"
    assert page.evaluate("document.activeElement.parentElement.dataset.key") == "alarms mute"
    assert page.locator("#endpoints h3").first.inner_text() == RANKER


def test_what_is_typed_into_a_form_stays_while_the_page_asks(visit: Visitor) -> None:
    seen = visit()
    seen.page.locator("#fault-delay_ms").fill("1234")
    seen.page.locator("#traffic-requests").fill("77")
    seen.show(replace(full_state(), at=NOW + timedelta(minutes=1)))
    expect(seen.page.locator("#place")).to_contain_text("10:01:00")
    assert seen.page.locator("#fault-delay_ms").input_value() == "1234"
    assert seen.page.locator("#traffic-requests").input_value() == "77"


def test_live_regions_speak_only_when_something_was_done_or_lost(visit: Visitor) -> None:
    seen = visit()
    seen.page.evaluate(
        """() => { window.spoken = 0; const watch = new MutationObserver((all) => { window.spoken += all.length });
        for (const one of document.querySelectorAll("[role=status], [aria-live], [role=alert]"))
          watch.observe(one, { subtree: true, childList: true, characterData: true }); }"""
    )
    for minute in range(1, 4):
        seen.show(replace(full_state(), at=NOW + timedelta(minutes=minute), alarms=[]))
        expect(seen.page.locator("#place")).to_contain_text(f"10:0{minute}:00")
    assert seen.page.evaluate("window.spoken") == 0


def test_a_hidden_page_asks_for_nothing_and_a_shown_one_at_once(visit: Visitor) -> None:
    seen = visit(held=True)
    page = seen.page

    def becomes(state: str) -> None:
        page.evaluate(
            "(state) => Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => state })",
            state,
        )
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    becomes("hidden")
    before = len(seen.asked)
    page.clock.run_for(60_000)
    assert len(seen.asked) == before
    with page.expect_response("**/state.json"):
        becomes("visible")
    with page.expect_response("**/state.json"):
        page.clock.run_for(2_000)
