"""Whatever a TOML file holds, the check ends in problems or in none, never in an error of its own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeVar

import pytest
from cattrs import BaseValidationError
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.errors import SpecError
from serving.spec import ModelSpec, StageSpec
from serving.spec.codec import converter, failures, from_json
from serving.spec.load import Project, load_project, parse
from serving.spec.manifest import LockedVersion
from serving.spec.rules import model_problems, model_warnings, stage_problems, stage_warnings

T = TypeVar("T")

RANKER = "models/recommendation_ranker/model.toml"
LEAVES = st.one_of(
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.integers(-2, 130),
    st.floats(allow_nan=False),
    st.text(max_size=12),
    st.sampled_from(
        [
            "ml.p4d.24xlarge",
            "ml.t2.medium",
            "async",
            "components",
            "rolling",
            "cron(* * ? * * *)",
            "cron(0/" + "9" * 5000 + " 0 ? * 1 *)",
        ]
    ),
    st.just([]),
    st.just({}),
    st.lists(st.integers(-2, 3), max_size=3),
)


def places(table: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Give the path of every value in a table, tables and lists included."""
    if path:
        yield path
    entries = table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()
    for key, value in entries:
        yield from places(value, (*path, key))


@st.composite
def mutated(draw: st.DrawFn, table: dict[str, Any]) -> dict[str, Any]:
    """Replace, one to three times, some value of a table by any other."""
    made = deepcopy(table)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(made))))
        inner: Any = made
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = draw(LEAVES)
    return made


@pytest.fixture(scope="module", name="project")
def project_fixture(root: Path) -> Project:
    return load_project(root)


def structured(table: dict[str, Any], cls: type[T]) -> T | None:
    """Give a table as a type, or None where every wrong value of it is told."""
    try:
        return converter().structure(table, cls)
    except BaseValidationError as wrong:
        told = list(failures(wrong))
    assert told
    assert all(row.key for row in told)
    return None


def table_of(root: Path, file: str) -> dict[str, Any]:
    return tomllib.loads((root / file).read_text())


@pytest.mark.parametrize("name", ["recommendation_ranker", "thumbnail_scorer", "support_rag"])
@settings(max_examples=60)
@given(data=st.data())
def test_a_model_with_any_values_is_checked_to_the_end(root: Path, name: str, data: st.DataObject) -> None:
    table = data.draw(mutated(table_of(root, f"models/{name}/model.toml")))
    model = structured(table, ModelSpec)
    if model is not None and not model_problems(model, file=RANKER, folder=name):
        model_warnings(model, file=RANKER)


@pytest.mark.parametrize("name", ["staging", "prod"])
@settings(max_examples=60)
@given(data=st.data())
def test_a_stage_with_any_values_is_checked_to_the_end(
    root: Path, project: Project, name: str, data: st.DataObject
) -> None:
    table = data.draw(mutated(table_of(root, f"stages/{name}.toml")))
    stage = structured(table, StageSpec)
    if stage is not None and not stage_problems(stage, project.models, project.locks, file="x", stem=name):
        stage_warnings(stage, project.models, project.locks, file="x")


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("api.labels", 'unit = "user_id"', 'unit = "user_id"\nlabels = "safe"'),
        ("hosting.component", "max_count = 16", "max_count = 16\ncomponent = 3"),
        ("release.ramp", "ramp = [0.1, 0.5]", 'ramp = "01"'),
        ("features[0].fields", "max_age_s = 86400", "max_age_s = 86400\nfields = { a = 1 }"),
    ],
)
def test_a_text_or_a_table_is_no_list_and_a_number_no_table(root: Path, key: str, old: str, new: str) -> None:
    text = (root / RANKER).read_text()
    assert old in text
    if key == "features[0].fields":
        text = "\n".join(line for line in text.splitlines() if not line.startswith("fields = "))
    text = text.replace(old, new, 1)
    with pytest.raises(SpecError) as caught:
        parse(text, ModelSpec, file=RANKER)
    assert key in {problem.key for problem in caught.value.problems}


def test_every_wrong_key_of_nested_optional_tables_is_told_at_once(root: Path) -> None:
    nested = """
[hosting.component]
accelerators = "two"
copies = 1

[hosting.batch]
min_count = 1.5

[hosting.batch.scaling]
schedules = [{ name = "x", start = 1, min_count = 2 }]
step = { metric = "cpu", threshold = "high", steps = [{ lower = "0" }] }
"""
    text = (root / RANKER).read_text().replace("[hosting.scaling]", f"{nested}\n[hosting.scaling]")
    with pytest.raises(SpecError) as caught:
        parse(text, ModelSpec, file=RANKER)
    assert {problem.key for problem in caught.value.problems} == {
        "hosting.component.accelerators",
        "hosting.component.memory_mib",
        "hosting.component.copies",
        "hosting.batch.min_count",
        "hosting.batch.scaling.schedules[0].start",
        "hosting.batch.scaling.schedules[0].end",
        "hosting.batch.scaling.step.metric",
        "hosting.batch.scaling.step.threshold",
        "hosting.batch.scaling.step.steps[0].lower",
        "hosting.batch.scaling.step.steps[0].add",
    }


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 3000, "a = " + "9" * 5001, "a = \x00", ""], ids=["depth", "digits", "control", "empty"]
)
@pytest.mark.parametrize("cls", [ModelSpec, StageSpec])
def test_a_file_beyond_what_python_parses_is_one_problem_or_more(text: str, cls: type) -> None:
    with pytest.raises(SpecError):
        parse(text, cls, file="any.toml")


@pytest.mark.parametrize("character", ["\\u0000", "\\u0007", "\\u001b", "\\u0085", "\\u202e"])
@pytest.mark.parametrize("key", ["owner", "description", "weights", "baseline", "entity"])
def test_no_text_of_a_spec_holds_control_characters(root: Path, key: str, character: str) -> None:
    lines = (root / RANKER).read_text().splitlines()
    place = next(index for index, line in enumerate(lines) if line.startswith(f"{key} = "))
    lines[place] = f'{key} = "before{character}after"'
    with pytest.raises(SpecError) as refused:
        parse("\n".join(lines), ModelSpec, file=RANKER)
    assert [problem.allowed for problem in refused.value.problems] == ["text without control characters"]


@pytest.mark.parametrize("value", ["[]", "3", '"text"', "null", "true"])
def test_a_lock_that_is_no_table_is_a_problem(value: str) -> None:
    with pytest.raises(ValueError, match="got"):
        from_json(value.encode(), dict[str, LockedVersion])
