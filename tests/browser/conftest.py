"""One Chromium and one scripted stack for each file; every test opens pages of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.visits import CHROMIUM, Visitor
from tests.fakes.page import Script, Server, served


@pytest.fixture(scope="module", name="browser")
def browser_fixture() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="module", name="stack")
def stack_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Script, Server]]:
    script = Script(folder=tmp_path_factory.mktemp("page"))
    with served(script) as server:
        yield script, server


@pytest.fixture(name="visit")
def visit_fixture(browser: Browser, stack: tuple[Script, Server]) -> Iterator[Visitor]:
    script, server = stack
    script.sender.reset()
    for fault in script.faults.all():
        script.faults.remove(fault.name)
    visitor = Visitor(browser, script, server, [])
    yield visitor
    for visit in visitor.visits:
        visit.page.close()
