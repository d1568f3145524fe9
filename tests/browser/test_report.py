"""The demo's report as a person sees it: in a real browser, at phone and at desktop width."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from cli.demo import report
from serving.spec import ModelSpec
from serving.spec.load import parse
from tests.browser.visits import IN_CHROMIUM
from tests.fakes.demo import broken_off, whole

NAMES = ("recommendation_ranker", "content_moderator", "thumbnail_scorer", "support_rag")

pytestmark = IN_CHROMIUM


@pytest.fixture(scope="module", name="models")
def models_fixture(root: Path) -> dict[str, ModelSpec]:
    return {name: parse((root / f"models/{name}/model.toml").read_text(), ModelSpec, file=name) for name in NAMES}


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_fits_its_window_and_needs_nothing_from_outside(
    models: dict[str, ModelSpec], tmp_path: Path, browser: Browser, width: int, scheme: str
) -> None:
    found = whole(tuple(model.api.route for model in models.values()))
    path = report.write(found, models, min_uplift=0.02, to=tmp_path / "report.html")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    faults: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert page.locator("svg").count() == 7
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert faults == []
    assert asked == [path.as_uri()]
    page.close()


def test_a_story_that_broke_off_is_shown_as_far_as_it_came(
    models: dict[str, ModelSpec], tmp_path: Path, browser: Browser
) -> None:
    path = report.write(broken_off(), models, min_uplift=0.02, to=tmp_path / "report.html")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert "Not as promised" in page.inner_text("main")
    assert "never came" in page.inner_text("main")
    assert page.get_by_label("not kept").count() == 3
    page.close()
