"""What is wrong with a stage: its own rules, those on its models, and the models' rules on what it overrides."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from serving.errors import Problem
from serving.spec.effective import in_stage
from serving.spec.images import image_key
from serving.spec.manifest import LockedVersion
from serving.spec.model import ModelSpec
from serving.spec.rules import capture, component, fleet, place, stage_model
from serving.spec.rules.api import api_findings
from serving.spec.rules.finding import Finding
from serving.spec.rules.images import image_findings
from serving.spec.rules.model_rules import MODEL_RULES
from serving.spec.rules.stage_model import Placed
from serving.spec.stage import StageSpec

_OVERRIDES = {
    "hosting.scaling.schedules": "schedules",
    "hosting.component.": "",
    "hosting.": "",
    "drift.": "",
    "budget.": "",
}
"""Section of a model → where a stage overrides its keys, the longest first."""

PLACED_RULES: tuple[stage_model.PlacedRule, ...] = (*stage_model.RULES, *capture.RULES)
WARNINGS: tuple[stage_model.PlacedRule, ...] = (*fleet.WARNINGS, *component.WARNINGS, *capture.WARNINGS)


def stage_problems(
    stage: StageSpec,
    models: Mapping[str, ModelSpec],
    locks: Mapping[str, Mapping[str, LockedVersion]],
    *,
    file: str,
    stem: str,
    unread: Collection[str] = (),
) -> list[Problem]:
    """Check a stage against the models it names and the digests that are locked.

    What `unread` names, and a model that `locks` lacks, has a broken file that is told already: no second problem here.
    """
    findings: list[Finding] = []
    if stage.name != stem:
        findings.append(("name", repr(stage.name), f"{stem!r}, the file's name", "make them the same", ""))
    findings += (found for rule in place.RULES for found in rule(stage))
    findings += api_findings(stage)
    placed = list(placed_models(stage, models, locks))
    findings += image_findings(stage, keys={image_key(one.own) for one in placed})
    for name in stage.models.keys() - models.keys() - set(unread):
        known = ", ".join(sorted({*models, *unread}))
        fix = "name a model that exists" if known else f"add models/{name}/model.toml (docs/specs.md)"
        findings.append(
            (f"models.{name}", repr(name), f"one of {known or 'models/*/model.toml, of which there is none'}", fix, "")
        )
    for one in placed:
        findings += (found for rule in PLACED_RULES for found in rule(one))
        findings += overridden(one)
    return [Problem(file, *found) for found in findings]


def stage_warnings(
    stage: StageSpec,
    models: Mapping[str, ModelSpec],
    locks: Mapping[str, Mapping[str, LockedVersion]],
    *,
    file: str,
) -> list[Problem]:
    """Give what AWS takes and an operator should know before a deploy."""
    placed = placed_models(stage, models, locks)
    return [Problem(file, *found) for one in placed for rule in WARNINGS for found in rule(one)]


def placed_models(
    stage: StageSpec, models: Mapping[str, ModelSpec], locks: Mapping[str, Mapping[str, LockedVersion]]
) -> Iterator[Placed]:
    """Give each model of a stage that could be read, as the stage deploys it."""
    for name, entry in stage.models.items():
        if name in models:
            own = models[name]
            yield Placed(stage=stage, entry=entry, model=in_stage(own, entry), own=own, locked=locks.get(name))


def overridden(placed: Placed) -> Iterator[Finding]:
    """What a stage says instead is held to the model's rules; what the model's own file breaks is told there."""
    for rule in MODEL_RULES:
        own = set(rule(placed.own))
        for found in rule(placed.model):
            if found not in own:
                yield (_stage_key(placed, found[0]), *found[1:])


def _stage_key(placed: Placed, key: str) -> str:
    for section, place_there in _OVERRIDES.items():
        if key.startswith(section):
            return f"{placed.key}.{place_there}{key.removeprefix(section)}"
    return f"{placed.key}.{key}"
