"""`docs/specs.md` has every key of the spec types, with its default."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

import pytest

from serving import spec

PAGE = (Path(__file__).parents[2] / "docs/specs.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (`|\*\*)(.*?) \| (.*?) \| .* \|$", flags=re.MULTILINE)

# section of the page → the types it describes, each with the prefix that its keys have
SECTIONS: Mapping[str, tuple[tuple[type, str], ...]] = {
    "[runtime]": ((spec.TritonRuntime, ""), (spec.VllmRuntime, ""), (spec.PyTorchRuntime, "")),
    "[slo]": ((spec.Slo, ""),),
    "[[inputs]]": ((spec.TensorSpec, ""),),
    "[api]": ((spec.ApiSpec, ""),),
    "[[features]]": ((spec.FeatureViewSpec, ""),),
    "[hosting]": (
        (spec.HostingSpec, ""),
        (spec.ScalingSpec, "scaling."),
        (spec.CustomMetricSpec, "scaling.custom."),
        (spec.StepPolicySpec, "scaling.step."),
        (spec.StepSpec, "scaling.step.steps."),
        (spec.ScheduleSpec, "scaling.schedules."),
        (spec.ComponentSpec, "component."),
        (spec.AsyncSpec, "asynchronous."),
        (spec.BatchSpec, "batch."),
        (spec.DeploymentSpec, "deployment."),
    ),
    "[release]": ((spec.ReleaseSpec, ""), (spec.GuardrailSpec, "guardrails.")),
    "[drift]": ((spec.DriftSpec, ""),),
    "[budget]": ((spec.BudgetSpec, ""),),
    "[versions": ((spec.VersionSpec, ""), (spec.QuantisationSpec, "quantisation.")),
}
NESTED = {"quantisation", "scaling", "guardrails", "asynchronous", "deployment"}


def section(start: str) -> str:
    """Give the text of the section whose heading starts with this table's name."""
    found = re.search(rf"^### `{re.escape(start)}.*?(?=^##|\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert found is not None, start
    return found.group()


def documented(text: str) -> dict[str, set[str]]:
    """Give key → the defaults that its rows state."""
    rows: dict[str, set[str]] = {}
    for row in ROW.finditer(text):
        cell, default = row.group(1) + row.group(2), row.group(3)
        keys = re.findall(r"`([\w.]+)`", cell)
        parts = default.split(", ")
        stated = parts if len(parts) == len(keys) else [default] * len(keys)
        for key, value in zip(keys, stated, strict=True):
            rows.setdefault(key, set()).add(value.strip("`"))
    return rows


def stated_default(field: dataclasses.Field[object]) -> str:
    """Give a default in the page's words."""
    if field.default is dataclasses.MISSING:
        return "none" if field.default_factory is dict else "required"
    value = field.default
    if value is None or value in ((), ""):
        return "none"
    if isinstance(value, Enum | str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_has_every_key_with_its_default(name: str) -> None:
    rows = documented(section(name))
    fields = [(prefix + f.name, f) for cls, prefix in SECTIONS[name] for f in dataclasses.fields(cls)]
    wanted = {key: field for key, field in fields if field.name not in NESTED and key != "kind"}
    wrong = {key: rows.get(key) for key, field in wanted.items() if stated_default(field) not in rows.get(key, set())}
    assert wrong == {}
    assert set(rows) - set(wanted) - {"kind"} == set()


def test_the_page_has_every_key_of_a_stage() -> None:
    start = PAGE.index("## `stages/")
    rows = documented(PAGE[start:])
    models = {f"models.<name>.{field.name}" for field in dataclasses.fields(spec.StageModel)}
    text = PAGE[start:]
    assert {field.name for field in dataclasses.fields(spec.StageSpec)} - {"models", "api"} <= set(rows)
    assert {f"api.{field.name}" for field in dataclasses.fields(spec.ApiShell)} <= set(rows)
    assert [key for key in models if f"`{key}`" not in text and f"`{key.rsplit('.', 1)[-1]}`" not in text] == []
