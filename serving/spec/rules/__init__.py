"""Rules that span fields, one function each: what AWS refuses later is refused here, with its source.

A rule is a function from a spec to findings, one module a topic: on a model (`model_rules`), on a stage (`place`,
`api`, `images`), on a model in a stage (`stage_model`). Warnings are rules whose findings refuse nothing.
"""

from __future__ import annotations

from serving.errors import Problem
from serving.spec.model import ModelSpec
from serving.spec.rules.fleet import MODEL_WARNINGS
from serving.spec.rules.model_rules import MODEL_RULES
from serving.spec.rules.stage import stage_problems, stage_warnings

__all__ = ["MODEL_RULES", "model_problems", "model_warnings", "stage_problems", "stage_warnings"]


def model_problems(spec: ModelSpec, *, file: str, folder: str) -> list[Problem]:
    """Run every rule on a model; `folder` is the name its folder has."""
    problems = [Problem(file, *finding) for rule in MODEL_RULES for finding in rule(spec)]
    if spec.name != folder:
        problems.append(Problem(file, "name", repr(spec.name), f"{folder!r}, the folder's name", "make them the same"))
    return problems


def model_warnings(spec: ModelSpec, *, file: str) -> list[Problem]:
    """Give what AWS takes of a model and its owner should know."""
    return [Problem(file, *finding) for rule in MODEL_WARNINGS for finding in rule(spec)]
