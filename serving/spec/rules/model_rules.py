"""Every rule on a model, one function each; a topic a module."""

from __future__ import annotations

from serving.spec.rules import (
    asynchronous,
    component,
    deployment,
    ensemble,
    hosting,
    instances,
    model,
    payload,
    release,
    runtime,
    scaling,
    schedules,
    version,
)
from serving.spec.rules.finding import Rule

MODEL_RULES: tuple[Rule, ...] = (
    *model.RULES,
    *runtime.RULES,
    *ensemble.RULES,
    *version.RULES,
    *hosting.RULES,
    *instances.RULES,
    *scaling.RULES,
    *schedules.RULES,
    *component.RULES,
    *asynchronous.RULES,
    *deployment.RULES,
    *payload.RULES,
    *release.RULES,
)
