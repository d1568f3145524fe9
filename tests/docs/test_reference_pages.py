"""The reference pages have every name that the code has, and no other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from lambdas.predict.openapi import openapi_document
from lambdas.predict.problems import KINDS
from lambdas.predict.routes import MAX_BODY_BYTES, MAX_IMAGE_BODY_BYTES
from serving.prediction import answers, images, schemas
from serving.release import policy
from serving.spec import Fallback, ReleaseSpec

ROOT = Path(__file__).parents[2]
API = (ROOT / "docs/api.md").read_text(encoding="utf-8")
RELEASES = (ROOT / "docs/releases.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
DEPENDENCIES = (ROOT / "docs/adr/0006-dependencies.md").read_text(encoding="utf-8")
OUTSIDE_THE_LOCK = {"torch", "scikit-image", "onnxscript"}
AN_EXTRA = {"libvalkey"}
MIB = 1024 * 1024


def rows(text: str, heading: str) -> list[list[str]]:
    """Give the cells of the table whose first heading cell is this one."""
    start = text.index(f"| {heading} |")
    lines = text[start:].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def names(cell: str) -> list[str]:
    """Give what stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def test_the_api_page_has_every_route_with_its_method() -> None:
    listed = {tuple(names(row[0])[0].split()) for row in rows(API, "route")}
    published = {(method.upper(), path) for path, methods in openapi_document()["paths"].items() for method in methods}
    assert listed == published


def test_the_api_page_has_every_problem_type_with_its_status() -> None:
    listed: dict[str, int] = {}
    for row in rows(API, "type"):
        types, statuses = names(row[0]), [int(number) for number in row[1].split(", ")]
        listed |= dict(zip(types, statuses if len(statuses) > 1 else statuses * len(types), strict=True))
    assert listed == {kind.name: kind.status for kind in KINDS}


def test_the_api_page_has_every_word_of_degraded() -> None:
    words = {answers.FEATURES_DEFAULT, answers.CONTEXT_DEFAULT, answers.FALLBACK_MODEL, answers.TRAFFIC_UNKNOWN}
    assert {names(row[0])[0] for row in rows(API, "`degraded`")} == words


def test_the_api_page_has_every_fallback_and_event() -> None:
    assert {names(row[0])[0] for row in rows(API, "`fallback`")} == {fallback.value for fallback in Fallback}
    assert {names(row[0])[0] for row in rows(API, "`event`")} == set(schemas.EVENTS)


def test_the_limits_of_the_api_page_are_those_of_the_code() -> None:
    said = (
        f"{MAX_IMAGE_BODY_BYTES // MIB} MiB on `/v1/moderate` and `/v1/thumbnail-score`, {MAX_BODY_BYTES // MIB} MiB",
        f"{images.MAX_IMAGE_BYTES // MIB} MiB, {images.MAX_PIXELS // 1_000_000} million pixels",
        f"{images.MAX_SIDE:,} a side",
        f"1 to {schemas.MAX_ID_CHARACTERS} characters",
        f"1 to {schemas.MAX_CANDIDATES}, distinct",
        f"at most {schemas.MAX_TITLE_CHARACTERS:,} characters",
        f"{schemas.MAX_QUESTION_CHARACTERS:,} characters; {schemas.MAX_PASSAGES} passages",
        f"passages of {schemas.MAX_PASSAGE_CHARACTERS:,} characters",
        f"seconds, 0 to {schemas.MAX_WATCH_S:,}",
    )
    assert [text for text in said if text not in API] == []


def test_the_gates_of_the_releases_page_are_those_of_the_code() -> None:
    source = (ROOT / "serving/release/gates.py").read_text(encoding="utf-8")
    coded = set(re.findall(r"(?:gate=|_lacking\(\s*)\"(\w+)\"", source))
    assert {names(row[0])[0] for row in rows(RELEASES, "gate")} == coded


def test_the_numbers_of_the_policies_on_the_releases_page_are_those_of_the_code() -> None:
    usual = policy.policy_for(ReleaseSpec())
    demo = policy.policy_for(ReleaseSpec(), name=policy.DEMO_POLICY)
    said = (
        f"and {usual.min_buckets} of the 256 buckets",
        f"reach {usual.srm_alarm:g} to 1",
        f"fewer than {usual.min_error_requests} requests",
        f"fewer than {usual.p99_min_requests:,} latencies",
        f"({usual.guardrail_alpha:.2%}); `p99` passes at {usual.p99_alpha:.1%}",
        f"surely {usual.watch_margin:.0%} below",
        f"{demo.min_impressions} impressions, {demo.min_clicks} clicks and {demo.min_buckets} buckets",
        f"{demo.p99_min_requests} latencies",
        f"tightest for an uplift of {demo.tau:.0%} (instead of {usual.tau:.0%})",
    )
    text = re.sub(r"\s+", " ", RELEASES)
    assert [part for part in said if part not in text] == []


@pytest.mark.parametrize("source", ["infra/alarms.py", "infra/asynchronous.py", "infra/function_alarms.py"])
def test_the_operations_page_has_every_alarm(source: str) -> None:
    text = (ROOT / source).read_text(encoding="utf-8")
    endings = re.findall(r"alarm_name=f\"\{endpoint(?:\.name)?\}(-[\w-]+)\"", text)
    endings += [f"-{what}" for what in re.findall(r"\bwhat=\"(\w+)\"", text)]
    endings += [f"-{what}" for what in re.findall(r"^            \"(\w+)\": (?:\(|function)", text, flags=re.MULTILINE)]
    assert endings
    listed = " ".join(row[0] for row in rows(OPERATIONS, "alarm"))
    assert [ending for ending in endings if ending not in listed] == []


def test_the_record_of_dependencies_names_every_direct_one_and_no_other() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"].values()
    declared = [*project["project"]["dependencies"], *(entry for group in groups for entry in group)]
    direct = {re.split(r"[\[<>=]", entry)[0] for entry in declared if isinstance(entry, str)}
    listed = {
        re.sub(r"\(.*\)", "", name).strip()
        for row in rows(DEPENDENCIES, "package")
        for name in re.split(r", | \+ ", row[0])
    }
    assert listed - OUTSIDE_THE_LOCK - AN_EXTRA == direct
