"""Rules that span fields, one function each: what AWS refuses later is refused here, with its source.

A rule is `ModelSpec → findings`, one module a topic; `MODEL_RULES` has them all.
"""

from __future__ import annotations

from serving.errors import Problem
from serving.spec.model import ModelSpec
from serving.spec.rules import hosting, model, release, runtime, version
from serving.spec.rules.finding import Rule
from serving.spec.rules.stage import stage_problems

__all__ = ["MODEL_RULES", "model_problems", "stage_problems"]

MODEL_RULES: tuple[Rule, ...] = (*model.RULES, *runtime.RULES, *hosting.RULES, *release.RULES, *version.RULES)


def model_problems(spec: ModelSpec, *, file: str, folder: str) -> list[Problem]:
    """Run every rule on a model; `folder` is the name its folder has."""
    problems = [Problem(file, *finding) for rule in MODEL_RULES for finding in rule(spec)]
    if spec.name != folder:
        problems.append(Problem(file, "name", repr(spec.name), f"{folder!r}, the folder's name", "make them the same"))
    return problems
