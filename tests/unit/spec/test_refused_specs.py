"""Each spec of `refused.toml` is one that AWS refuses; the check says so first, with key, reason and source."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer

from cli.check import command
from serving.errors import SpecError
from serving.spec.load import load_project
from serving.spec.rules import images, place
from serving.spec.rules.model_rules import MODEL_RULES
from serving.spec.rules.stage import PLACED_RULES

ROWS: Sequence[Mapping[str, Any]] = tomllib.loads((Path(__file__).parent / "refused.toml").read_text())["spec"]
LEAST_ROWS = 40
"""What the project promises; rules that AWS has no part in are tested in test_rules.py."""

# rules on what only this project wants, each with its test in test_rules.py
OURS = {
    "versions_are_semantic",
    "budget_fits_the_p99",
    "promises_are_possible",
    "features_have_defaults",
    "thresholds_name_labels",
    "tensors_are_sound",
    "ramp_only_rises",
    "archives_fit_the_disk",
    "batching_leaves_time",
    "conversions_fit_the_runtime",
    "licence_is_known",
    "runtime_numbers_are_legal",
    "batch_fits_memory",
    "captures_outlive_drift",
    "tensors_fit_the_backend",
    "ragged_inputs_are_counted",
    "ensemble_is_wired",
}


def break_project(root: Path, project: Path, *rows: Mapping[str, Any]) -> None:
    """Copy the project and make the rows' edits to it."""
    for folder in ("models", "stages"):
        shutil.copytree(root / folder, project / folder)
    for row in rows:
        path = project / (f"{row['file']}.toml" if row["file"].startswith("stages/") else f"{row['file']}/model.toml")
        text = path.read_text()
        for old, new in row["edit"]:
            assert old in text, f"{row['id']}: {old!r} is not in {path.name}"
            text = text.replace(old, new, 1)
        path.write_text(text)


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_spec_that_aws_refuses_is_refused_with_key_reason_and_source(
    root: Path, tmp_path: Path, row: Mapping[str, Any]
) -> None:
    break_project(root, tmp_path, row)
    with pytest.raises(SpecError) as caught:
        load_project(tmp_path)
    told = [problem for problem in caught.value.problems if problem.key == row["key"]]
    lines = [str(problem) for problem in told]
    assert any(all(word in line for word in row["words"]) for line in lines), [*map(str, caught.value.problems)]
    assert row.get("told_in", told[0].file) in {problem.file for problem in told}
    assert any(row.get("source", "") in problem.source for problem in told)


def test_the_matrix_is_as_large_as_promised_and_each_of_its_rows_is_another_spec() -> None:
    assert len(ROWS) >= LEAST_ROWS
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    assert len({str((row["file"], row["edit"])) for row in ROWS}) == len(ROWS)


def test_every_rule_that_rests_on_aws_has_a_row() -> None:
    own = {name for name, value in vars(images).items() if callable(value) and value.__module__ == images.__name__}
    rules = {rule.__name__ for rule in (*MODEL_RULES, *place.RULES, *PLACED_RULES)} | own - {"image_findings"}
    assert rules - OURS - {row["rule"] for row in ROWS} == set()
    assert {row["rule"] for row in ROWS} - rules == {"unknown-key"}


def test_problems_of_model_stage_and_image_are_told_at_once_by_the_command(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wanted = {"zero-on-a-plain-variant", "customer-key-on-nvme", "days-that-no-log-group-keeps", "unknown-image-key"}
    rows = [row for row in ROWS if row["id"] in wanted]
    break_project(root, tmp_path, *rows)
    with pytest.raises(typer.Exit) as ended:
        command(root=tmp_path, as_json=True)
    assert ended.value.exit_code == 1
    document = orjson.loads(capfd.readouterr().out)
    assert document["ok"] is False
    assert {row["key"] for row in rows} <= {problem["key"] for problem in document["problems"]}
