"""Who may ask the page's server, and who may change anything: by the Fetch and OWASP rules that the guard names."""

from __future__ import annotations

import pytest

from local.page.document import MAX_TEXT
from local.page.guard import POLICY, refuse_change, refuse_foreign

OURS = {
    "host": "127.0.0.1:4566",
    "origin": "http://127.0.0.1:4566",
    "sec-fetch-site": "same-origin",
    "content-type": "application/json",
    "x-streamhub-page": "1",
}


@pytest.mark.parametrize("host", ["127.0.0.1:4566", "localhost:4566", "LOCALHOST:1", "[::1]:4566", "127.0.0.1"])
def test_any_loopback_name_may_ask_whatever_the_port(host: str) -> None:
    assert refuse_foreign({"host": host}) == ""


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:4566",
        "192.0.2.7",
        "",
        "[",
        "a@127.0.0.1@b",
        "user@127.0.0.1",
    ],
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(host: str) -> None:
    assert refuse_foreign({"host": host}).startswith("Host: got ")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_says_another_site_asks_is_refused(site: str) -> None:
    assert "may not ask" in refuse_foreign({**OURS, "sec-fetch-site": site})


def test_the_page_itself_may_change_things() -> None:
    assert refuse_foreign(OURS) == ""
    assert refuse_change(OURS) == ""


def test_a_client_without_a_browser_may_change_things_with_the_header() -> None:
    plain = {name: OURS[name] for name in ("host", "content-type", "x-streamhub-page")}
    assert refuse_change(plain) == ""


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_can_send_changes_nothing(kind: str) -> None:
    assert refuse_change({**OURS, "content-type": kind}).startswith("Content-Type: got ")


@pytest.mark.parametrize(("value", "told"), [("", "none"), ("2", "2"), ("x" * 9000, "xxx")])
def test_a_request_without_our_header_changes_nothing_and_is_told_what_came_in_a_line(value: str, told: str) -> None:
    refused = refuse_change({**OURS, "x-streamhub-page": value})
    assert refused.startswith(f"X-StreamHub-Page: got {told}")
    assert len(refused) < 2 * MAX_TEXT


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9", "https://127.0.0.1:4566"])
def test_another_origin_changes_nothing(origin: str) -> None:
    assert refuse_change({**OURS, "origin": origin}).startswith("Origin: got ")


def test_the_policy_lets_no_script_or_style_in_but_the_pages_own_files() -> None:
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["form-action"] == rules["base-uri"] == "'none'"
    assert "unsafe" not in POLICY
