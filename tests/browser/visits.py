"""Open pages of the local stack's page: what they asked for, and what went wrong in them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from local.page.document import State
from tests.fakes.page import Script, Server, full_state

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PHONE, DESKTOP = 360, 1280
IN_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"),
]
# what the browser itself says when the policy stops something
_LISTEN = "addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective}`))"


@dataclass
class Visit:
    """One open page, what it asked for, and what went wrong in it."""

    page: Page
    script: Script
    server: Server
    asked: list[str]
    faults: list[str]

    def poll(self) -> None:
        """Let the page ask at once, and wait until it has."""
        with self.page.expect_response("**/state.json"):
            self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    def show(self, state: State) -> None:
        self.script.state = state
        self.poll()

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()


@dataclass
class Visitor:
    """Opens pages of one browser on one scripted stack."""

    browser: Browser
    script: Script
    server: Server
    visits: list[Visit]

    def __call__(
        self, state: State | None = None, *, width: int = DESKTOP, scheme: str = "light", held: bool = False
    ) -> Visit:
        """Open the page; `held`: its time passes only when a test lets it."""
        self.script.state = state if state is not None else full_state()
        page = self.browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            reduced_motion="reduce",
        )
        visit = Visit(page, self.script, self.server, [], [])
        self.visits.append(visit)
        page.add_init_script(_LISTEN)
        if held:
            page.clock.install()
        page.on("console", lambda message: visit.faults.append(message.text))
        page.on("pageerror", lambda error: visit.faults.append(str(error)))
        page.on("dialog", lambda dialog: visit.faults.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: visit.asked.append(request.url))
        page.goto(self.server.url)
        expect(page.locator("#connection-text")).to_have_text("Connected")
        return visit
