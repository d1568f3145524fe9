"""Rules on a stage: where it is, and what it overrides of the models it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from serving.errors import Problem
from serving.spec.hosting import HostingMode
from serving.spec.manifest import LockedVersion
from serving.spec.model import ModelSpec
from serving.spec.rules.api import api_findings
from serving.spec.rules.finding import Finding
from serving.spec.rules.hosting import instance_findings
from serving.spec.rules.release import MAX_CAPTURE_PERCENT
from serving.spec.stage import SLOTS, StageModel, StageSpec

_RETENTION_DAYS = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)


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
    problems: list[Problem] = []

    def add(key: str, got: str, allowed: str, fix: str, source: str = "") -> None:
        problems.append(Problem(file, key, got, allowed, fix, source))

    if stage.name != stem:
        add("name", repr(stage.name), f"{stem!r}, the file's name", "make them the same")
    problems += (Problem(file, *finding) for finding in (*_place(stage), *api_findings(stage)))
    for name, entry in ((name, entry) for name, entry in stage.models.items() if name not in unread):
        key = f"models.{name}"
        if name not in models:
            known = ", ".join(sorted({*models, *unread}))
            add(key, repr(name), f"one of {known}", "name a model that exists")
            continue
        model = models[name]
        if model.hosting.mode is not HostingMode.REALTIME:
            add(key, f"mode {model.hosting.mode}", "mode realtime", "leave it out of stages until its construct exists")
        for slot in SLOTS:
            _check_slot(add, f"{key}.versions.{slot}", getattr(entry.versions, slot), model, locks.get(name))
        for finding in _override_findings(entry, model, key=key):
            add(*finding)
    return problems


def _override_findings(entry: StageModel, model: ModelSpec, *, key: str) -> Iterator[Finding]:
    lowest = entry.min_count if entry.min_count is not None else model.hosting.min_count
    highest = entry.max_count if entry.max_count is not None else model.hosting.max_count
    if not 1 <= lowest <= highest:
        yield f"{key}.min_count", f"{lowest} (max_count {highest})", "1 to max_count", "correct one of them", ""
    if entry.instance_type is not None:
        yield from instance_findings(model, f"{key}.instance_type", entry.instance_type)
    if entry.deadline_ms is not None and entry.deadline_ms < model.slo.p99_ms:
        got = f"{entry.deadline_ms:g}"
        yield f"{key}.deadline_ms", got, f"at least {model.slo.p99_ms:g}", "raise the deadline", ""
    if entry.capture_percent is not None and not 0 <= entry.capture_percent <= MAX_CAPTURE_PERCENT:
        got = str(entry.capture_percent)
        yield f"{key}.capture_percent", got, "0 to 100", "give a percentage; 0 turns it off", ""


def _place(stage: StageSpec) -> Iterator[Finding]:
    """Where a stage is, and how long its logs are kept."""
    if not re.fullmatch(r"\d{12}", stage.account):
        yield "account", repr(stage.account), "12 digits", "give the AWS account id", ""
    zones = stage.availability_zones
    if not zones or len(set(zones)) < len(zones) or not all(zone.startswith(stage.region) for zone in zones):
        allowed = f"different zones of {stage.region}, at least one"
        yield "availability_zones", str(list(zones)), allowed, "name zones of the region", ""
    if stage.log_retention_days not in _RETENTION_DAYS:
        allowed = f"one of {', '.join(map(str, _RETENTION_DAYS))}"
        yield "log_retention_days", str(stage.log_retention_days), allowed, "choose one", "AWS API_PutRetentionPolicy"


def _check_slot(
    add: Callable[[str, str, str, str], None],
    key: str,
    version: str,
    model: ModelSpec,
    locked: Mapping[str, LockedVersion] | None,
) -> None:
    if version not in model.versions:
        known = ", ".join(sorted(model.versions))
        add(key, repr(version), f"one of {known}", f'add [versions."{version}"] or name another')
    elif locked is not None and version not in locked:
        fix = f"run streamhub package {model.name} --version {version} --lock and commit the lock"
        add(key, f"{version}, whose digest is not locked", "a version in model.lock.json", fix)
