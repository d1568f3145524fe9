"""`streamhub local rehearse` as it is typed: exit codes, what is kept, what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import orjson
import pytest
from click.testing import Result
from typer.testing import CliRunner

from cli.main import build
from serving.errors import ReleaseError, StreamHubError

ROOT = Path(__file__).parents[3]
RANKER = ("recommendation_ranker", "--version", "3.0.0")


def rehearse(folder: Path, *arguments: str) -> Result:
    command = ["local", "rehearse", *arguments, "--root", str(ROOT), "--report", str(folder / "report.html")]
    return CliRunner().invoke(build(command), command)


def refused(folder: Path, *arguments: str) -> str:
    result = rehearse(folder, *arguments)
    assert isinstance(result.exception, StreamHubError), result.output
    assert not list(folder.glob("*.partial"))
    return str(result.exception)


def test_a_version_that_harms_exits_3_and_says_which_gate(tmp_path: Path) -> None:
    result = rehearse(tmp_path, *RANKER, "--scenario", "broken", "--days", "0.05", "--json")
    document = orjson.loads(result.stdout)
    assert (result.exit_code, document["end"]["state"], document["end"]["exit_code"]) == (3, "rolled-back", 3)
    assert [gate["gate"] for gate in document["moves"][2]["gates"]] == ["errors"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4
    assert not re.search(r"(src|href)\s*=\s*[\"']?(?!#)", page.replace('xlink:href="#', "")), "it loads nothing"


def test_what_is_kept_goes_on_and_other_settings_do_not_take_it(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    whole = rehearse(tmp_path, *RANKER, "--days", "0.05", "--json")
    for days in ("0.02", "0.05"):
        parts = rehearse(tmp_path, *RANKER, "--days", days, "--json", "--keep", str(kept))
    assert parts.stdout == whole.stdout
    assert whole.exit_code == 5, "no verdict yet"
    told = refused(tmp_path, *RANKER, "--days", "0.05", "--seed", "9", "--keep", str(kept))
    assert "allowed what a rehearsal of these settings kept" in told


@pytest.mark.parametrize("content", ["", "{}", "[1]"], ids=["empty", "object", "list"])
def test_a_file_that_is_no_rehearsal_is_refused_by_name_and_left_alone(tmp_path: Path, content: str) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(content)
    assert "kept.json: got" in refused(tmp_path, *RANKER, "--keep", str(kept))
    assert kept.read_text() == content


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    told = refused(tmp_path, RANKER[0], "--version", "9", "--scenario", "x", "--days", "nan")
    assert [told.count(f"{option}: got") for option in ("version", "scenario", "days")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nobody", "--version", "1"), "name one of stage dev"),
        ((*RANKER, "--qps", "0"), "qps: got 0"),
        ((*RANKER, "--qps", "inf"), "qps: got inf"),
        ((*RANKER, "--fault", "flood@1"), "fault: got 'flood@1'"),
        ((*RANKER, "--stage", "moon"), "moon"),
    ],
    ids=["model", "no requests", "endless requests", "fault", "stage"],
)
def test_what_cannot_be_played_is_refused(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    assert said in refused(tmp_path, *arguments)


def test_a_release_error_is_one_line(tmp_path: Path) -> None:
    result = rehearse(tmp_path, "recommendation_ranker", "--version", "2.0.0")
    assert isinstance(result.exception, ReleaseError)
    assert "\n" not in str(result.exception)
