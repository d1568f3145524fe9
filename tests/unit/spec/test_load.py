"""Specs load into frozen types, and every problem is told at once."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import FrozenInstanceError
from pathlib import Path

import jsonschema
import orjson
import pytest

from serving.errors import ModelNotFoundError, SpecError
from serving.spec import ModelSpec, StageSpec
from serving.spec.codec import from_json, to_json
from serving.spec.load import load_model, load_project, parse
from serving.spec.schema import SCHEMAS, schema_of

RANKER = "models/recommendation_ranker/model.toml"


def ranker_text(root: Path) -> str:
    return (root / RANKER).read_text()


def problems_of(text: str) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        parse(text, ModelSpec, file=RANKER)
    return {problem.key: problem.got for problem in caught.value.problems}


def test_the_four_models_and_three_stages_of_the_project_load(root: Path) -> None:
    project = load_project(root)
    assert set(project.models) == {"recommendation_ranker", "content_moderator", "thumbnail_scorer", "support_rag"}
    assert set(project.stages) == {"dev", "staging", "prod"}
    assert project.model("recommendation_ranker").slo.p99_ms == 12.0


def test_specs_are_frozen(root: Path) -> None:
    with pytest.raises(FrozenInstanceError):
        load_model(root, "recommendation_ranker").name = "other"  # type: ignore[misc]


def test_every_wrong_key_of_a_file_is_told_at_once(root: Path) -> None:
    text = (
        ranker_text(root)
        .replace('owner = "discovery"\n', "")
        .replace("p99_ms = 12", 'p99_ms = "12"')
        .replace('dtype = "FP32"', 'dtype = "FP31"', 1)
        .replace("min_count = 4", "min_count = 4.5")
        .replace("[slo]", "[slo]\nmean_ms = 3")
    )
    assert problems_of(text) == {
        "owner": "nothing",
        "slo.p99_ms": "'12'",
        "slo.mean_ms": "an unknown key",
        "inputs[0].dtype": "'FP31'",
        "hosting.min_count": "4.5",
    }


def test_a_problem_says_file_key_got_allowed_and_fix(root: Path) -> None:
    with pytest.raises(SpecError) as caught:
        parse(ranker_text(root).replace('dtype = "FP32"', 'dtype = "FP31"', 1), ModelSpec, file=RANKER)
    line = str(caught.value)
    assert all(part in line for part in (RANKER, "inputs[0].dtype", "'FP31'", "one of BOOL, UINT8", "correct"))


def test_problems_of_several_files_are_told_together(root: Path, tmp_path: Path) -> None:
    for folder in ("models", "stages"):
        shutil.copytree(root / folder, tmp_path / folder)
    model, stage = tmp_path / RANKER, tmp_path / "stages/dev.toml"
    model.write_text(model.read_text().replace("p99_ms = 12", "p99_ms = true"))
    stage.write_text(stage.read_text().replace('account = "123456789012"', 'account = "12"'))
    with pytest.raises(SpecError) as caught:
        load_project(tmp_path)
    told = {(problem.file, problem.key) for problem in caught.value.problems}
    assert {(RANKER, "slo.p99_ms"), ("stages/dev.toml", "account")} <= told


@pytest.fixture(name="project")
def project_fixture(root: Path, tmp_path: Path) -> Path:
    for folder in ("models", "stages"):
        shutil.copytree(root / folder, tmp_path / folder)
    return tmp_path


@pytest.mark.parametrize("file", [RANKER, "models/recommendation_ranker/model.lock.json"])
def test_a_broken_file_is_told_once_and_not_again_by_every_stage(project: Path, file: str) -> None:
    (project / file).write_bytes(b"\xff")
    with pytest.raises(SpecError) as caught:
        load_project(project)
    assert [problem.file for problem in caught.value.problems] == [file]


def test_a_project_without_stages_says_so(project: Path) -> None:
    shutil.rmtree(project / "stages")
    with pytest.raises(ModelNotFoundError, match=r"write stages/dev\.toml"):
        load_project(project).stage("dev")


@pytest.mark.parametrize(
    ("good", "bad", "key"),
    [
        ('region = "us-east-1"', 'region = "us-east-2"', "availability_zones"),
        ('["us-east-1a", "us-east-1b"]', "[]", "availability_zones"),
        ('["us-east-1a", "us-east-1b"]', '["us-east-1a", "us-east-1a"]', "availability_zones"),
        ("log_retention_days = 7", "log_retention_days = 8", "log_retention_days"),
        ('account = "123456789012"', 'account = "12"', "account"),
    ],
)
def test_a_stage_that_is_nowhere_is_refused(project: Path, good: str, bad: str, key: str) -> None:
    path = project / "stages/dev.toml"
    assert good in path.read_text()
    path.write_text(path.read_text().replace(good, bad))
    with pytest.raises(SpecError) as caught:
        load_project(project)
    assert [problem.key for problem in caught.value.problems] == [key]


def test_two_models_of_one_route_are_refused(project: Path) -> None:
    path = project / "models/content_moderator/model.toml"
    path.write_text(path.read_text().replace('"/v1/moderate"', '"/v1/rank"'))
    with pytest.raises(SpecError) as caught:
        load_project(project)
    (problem,) = caught.value.problems
    assert (problem.key, "content_moderator" in problem.allowed) == ("api.route", True)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_number_that_is_not_finite_is_refused(root: Path, number: str) -> None:
    assert problems_of(ranker_text(root).replace("p99_ms = 12", f"p99_ms = {number}")) == {"slo.p99_ms": number}


@pytest.mark.parametrize("text", ["name = ", "\x00", "[a\n"])
def test_text_that_is_not_toml_is_one_problem(text: str) -> None:
    assert list(problems_of(text)) == ["-"]


def test_a_file_that_is_no_utf8_is_one_problem(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "models", tmp_path / "models")
    (tmp_path / RANKER).write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="readable UTF-8"):
        load_model(tmp_path, "recommendation_ranker")


def test_an_unknown_model_names_those_there_are(root: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="recommendation_ranker"):
        load_model(root, "rankr")


@pytest.mark.parametrize("cls", [ModelSpec, StageSpec])
def test_json_round_trip_keeps_every_value(root: Path, cls: type) -> None:
    project = load_project(root)
    for value in [*project.models.values()] if cls is ModelSpec else [*project.stages.values()]:
        assert from_json(to_json(value), cls) == value


@pytest.mark.parametrize(("name", "cls"), SCHEMAS.items())
def test_committed_schemas_are_what_the_types_say(root: Path, name: str, cls: type) -> None:
    assert (root / "schemas" / name).read_bytes() == schema_of(cls)


def test_the_committed_schema_takes_the_specs_and_refuses_an_unknown_key(root: Path) -> None:
    schema = orjson.loads((root / "schemas/model.schema.json").read_bytes())
    table = tomllib.loads(ranker_text(root))
    jsonschema.validate(table, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**table, "surprise": 1}, schema)
