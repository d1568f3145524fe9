"""The demo's report as a person sees it: in a real browser, at phone and at desktop width."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from cli.demo import report
from cli.demo.result import DemoResult, DriftWindow, Look
from serving.spec import ModelSpec
from serving.spec.load import parse

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"),
]


def seen(root: Path) -> tuple[DemoResult, dict[str, ModelSpec]]:
    names = ("recommendation_ranker", "content_moderator", "thumbnail_scorer", "support_rag")
    models = {name: parse((root / f"models/{name}/model.toml").read_text(), ModelSpec, file=name) for name in names}
    result = DemoResult(stage="dev", models=[{"name": name, "version": "1.0.0", "digest": "f" * 64} for name in names])
    result.latencies_ms = {model.api.route: [5.0, 6.0, 9.0, 40.0] for model in models.values()}
    result.statuses.update({200: 16})
    result.by_phase = {"canary": {"a": 90, "b": 10}, "decision": {"a": 50, "b": 50}}
    bounds = {"estimate": 0.3, "lower": 0.1, "upper": 0.5}
    result.looks = [
        Look(
            stage=stage,
            share=0.5,
            impressions=100,
            decision="hold",
            rule="waiting",
            reason="<script>alert(1)</script>",
            **bounds,
        )
        for stage in (0, 1)
    ]
    result.reasons = ("<script>alert(1)</script>",)
    result.windows = [
        DriftWindow(label="1", score=0.9, drifted_share=0.2, worst_feature="activity", alarm_state="ALARM")
    ]
    return result, models


@pytest.fixture(scope="module", name="browser")
def browser_fixture() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_fits_its_window_and_needs_nothing_from_outside(
    root: Path, tmp_path: Path, browser: Browser, width: int, scheme: str
) -> None:
    result, models = seen(root)
    path = report.write(result, models, alarm_size=0.25, min_uplift=0.02, to=tmp_path / "report.html")
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    faults: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    assert page.locator("svg").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert faults == []
    assert asked == [path.as_uri()]
    page.close()
