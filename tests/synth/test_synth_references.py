"""Stacks read each other so that none is locked: any of them can change, or go, without the others' leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from serving.spec import StageSpec

CHANGES: dict[str, Callable[[StageSpec], StageSpec]] = {
    "another kind of cache": lambda stage: replace(stage, cache="serverless"),
    "no key of ours any more": lambda stage: replace(stage, encryption="managed"),
    "one zone less": lambda stage: replace(stage, availability_zones=stage.availability_zones[:2]),
    "one model less": lambda stage: replace(
        stage, models={name: entry for name, entry in stage.models.items() if name != "content_moderator"}
    ),
}


def below(value: Any) -> Iterator[dict[str, Any]]:
    """Give every table of a document."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from below(inner)


def outputs_read(template: Any) -> Iterator[tuple[str, str]]:
    for table in below(template):
        if "Fn::GetStackOutput" in table:
            read = table["Fn::GetStackOutput"]
            yield read["StackName"], read["OutputName"]


def test_no_stack_exports_and_none_imports(stage: Any) -> None:
    """CloudFormation refuses to change or drop an export that a stack imports, in whichever order they are updated."""
    for template in stage.templates.values():
        assert not [table for table in below(template) if "Fn::ImportValue" in table]
        assert not [output for output in template.get("Outputs", {}).values() if "Export" in output]


def test_every_output_that_is_read_is_there(stage: Any) -> None:
    prefix = f"streamhub-{stage.stage.name}-"
    for template in stage.templates.values():
        for stack, output in outputs_read(template):
            assert output in stage.templates[stack.removeprefix(prefix)]["Outputs"]


def test_producers_come_first_and_nobody_waits_in_a_circle(stage: Any) -> None:
    prefix = f"streamhub-{stage.stage.name}-"
    reads = {
        part: {stack.removeprefix(prefix) for stack, _ in outputs_read(template)}
        for part, template in stage.templates.items()
    }
    while reads:
        ready = {part for part, needs in reads.items() if not needs & reads.keys()}
        assert ready, f"a circle among {sorted(reads)}"
        reads = {part: needs for part, needs in reads.items() if part not in ready}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_value_has_another_name_so_that_its_readers_change_too(
    name: str, prod: Any, project: Any, synthesise: Any
) -> None:
    """A reader whose template stays the same is not deployed again, and would keep the old value."""
    stages = {**project.stages, "prod": CHANGES[name](project.stages["prod"])}
    after = synthesise(replace(project, stages=stages), "prod")
    for part, template in after.templates.items():
        old = prod.templates[part].get("Outputs", {})
        for output, entry in template.get("Outputs", {}).items():
            if output.startswith("Publish") and output in old:
                assert entry["Value"] == old[output]["Value"]


def test_no_model_stack_is_read_by_another(stage: Any) -> None:
    """So a model can leave a stage: the others know its endpoint by its name."""
    prefix = f"streamhub-{stage.stage.name}-"
    read = {stack.removeprefix(prefix) for template in stage.templates.values() for stack, _ in outputs_read(template)}
    assert not read & {model.slug for model in stage.models()}
