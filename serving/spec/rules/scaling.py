"""Rules on scaling: targets that can be reached, metrics that exist, steps without gaps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from serving.spec.hosting import HostingMode
from serving.spec.instances import instance_types
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.source import ALARM_API, ASYNC_GUIDE, SCALING_API
from serving.spec.scaling import ScalingSpec, StepPolicySpec, StepSpec

_TARGETS = ("target_concurrency", "target_invocations", "target_gpu_percent", "target_backlog")
_HIGH_RESOLUTION_S = (10, 20, 30)
_MINUTE_S = 60
_DAY_S = 86_400
_MAX_STEPS = 20
_MAX_NAME_CHARS = 255


def scalings(model: ModelSpec) -> Iterator[tuple[str, ScalingSpec, str, int, int]]:
    """Give each scaled fleet of a model: key, scaling, instance type, least and most instances or copies."""
    hosting, component = model.hosting, model.hosting.component
    copies = component if hosting.mode is HostingMode.COMPONENTS else None
    lowest, highest = (
        (copies.min_copies, copies.max_copies) if copies is not None else (hosting.min_count, hosting.max_count)
    )
    yield "hosting.scaling", hosting.scaling, hosting.instance_type, lowest, highest
    if (batch := hosting.batch) is not None:
        own = batch.instance_type if batch.instance_type is not None else hosting.instance_type
        yield "hosting.batch.scaling", batch.scaling, own, batch.min_count, batch.max_count


def something_is_tracked(model: ModelSpec) -> Iterator[Finding]:
    """A fleet whose counts differ needs at least one target, or it never moves."""
    for key, scaling, _, lowest, highest in scalings(model):
        tracked = scaling.custom is not None or any(getattr(scaling, name) is not None for name in _TARGETS)
        if not tracked and lowest != highest:
            yield (
                key,
                "no target",
                f"one of {', '.join(_TARGETS)}, custom",
                "set what one instance carries",
                SCALING_API,
            )


def targets_are_reachable(model: ModelSpec) -> Iterator[Finding]:
    """A target is above 0; a share of the GPUs is at most 100."""
    for key, scaling, _, _, _ in scalings(model):
        named = {name: getattr(scaling, name) for name in _TARGETS}
        if scaling.custom is not None:
            named["custom.target"] = scaling.custom.target
        for name, value in named.items():
            highest = 100.0 if name == "target_gpu_percent" else float("inf")
            if value is not None and not 0 < value <= highest:
                allowed = "above 0" if highest > 100 else "above 0, at most 100"  # noqa: PLR2004 # a percentage
                yield f"{key}.{name}", f"{value:g}", allowed, "set what one instance carries", SCALING_API


def gpu_metrics_need_a_gpu(model: ModelSpec) -> Iterator[Finding]:
    """A type without a GPU publishes no GPUUtilization: the policy would wait for ever."""
    for key, scaling, name, _, _ in scalings(model):
        found = instance_types().get(name)
        if found is None or found.gpus > 0:
            continue
        used = {"target_gpu_percent": scaling.target_gpu_percent is not None}
        used["step.metric"] = scaling.step is not None and scaling.step.metric == "gpu"
        for place in (place for place, is_used in used.items() if is_used):
            yield (
                f"{key}.{place}",
                f"GPU utilisation on {name}",
                "a type with a GPU",
                "track another metric",
                SCALING_API,
            )


def cooldowns_are_in_range(model: ModelSpec) -> Iterator[Finding]:
    """Cooldowns are whole seconds, 0 or more, and at most a day here."""
    for key, scaling, _, _, _ in scalings(model):
        named = {
            "scale_in_cooldown_s": scaling.scale_in_cooldown_s,
            "scale_out_cooldown_s": scaling.scale_out_cooldown_s,
        }
        if scaling.step is not None:
            named["step.cooldown_s"] = scaling.step.cooldown_s
        for name, value in named.items():
            if not 0 <= value <= _DAY_S:
                yield f"{key}.{name}", str(value), f"0 to {_DAY_S}", "correct it", SCALING_API


def custom_metric_is_ours(model: ModelSpec) -> Iterator[Finding]:
    """A custom metric has a name and a namespace of ours: nobody but AWS publishes in `AWS/`."""
    for key, scaling, _, _, _ in scalings(model):
        custom = scaling.custom
        if custom is None:
            continue
        if not 0 < len(custom.namespace) <= _MAX_NAME_CHARS or custom.namespace.startswith((":", "AWS/")):
            allowed = "1 to 255 characters, not AWS/…"
            yield f"{key}.custom.namespace", repr(custom.namespace), allowed, "name it", "AWS API_PutMetricData"
        if not 0 < len(custom.name) <= _MAX_NAME_CHARS:
            yield f"{key}.custom.name", repr(custom.name), "1 to 255 characters", "name it", "AWS API_PutMetricData"


def steps_meet(model: ModelSpec) -> Iterator[Finding]:
    """Steps start at the threshold, follow without gap or overlap, and the last one has no end."""
    for key, scaling, _, _, _ in scalings(model):
        if scaling.step is not None and not _contiguous(scaling.step.steps):
            got = ", ".join(
                f"{step.lower:g}..{'' if step.upper is None else f'{step.upper:g}'}" for step in scaling.step.steps
            )
            allowed = f"1 to {_MAX_STEPS} steps from 0, each from where the last ended, the last without upper"
            yield f"{key}.step.steps", got or "none", allowed, "close the gaps", "AWS API_StepAdjustment"


def steps_add(model: ModelSpec) -> Iterator[Finding]:
    """A step adds at least one: taking away is what the tracking does."""
    for key, scaling, _, _, _ in scalings(model):
        for index, step in enumerate(scaling.step.steps if scaling.step is not None else ()):
            if step.add < 1:
                yield (
                    f"{key}.step.steps[{index}].add",
                    str(step.add),
                    "at least 1",
                    "correct it",
                    "AWS API_StepAdjustment",
                )


def step_alarm_is_possible(model: ModelSpec) -> Iterator[Finding]:
    """An alarm looks every 10, 20 or 30 s at high-resolution metrics only, else by whole minutes, and a day at most."""
    for key, scaling, _, _, _ in scalings(model):
        step = scaling.step
        if step is None:
            continue
        if not _period_is_legal(step):
            allowed = "whole minutes; 10, 20 or 30 with metric concurrency"
            yield f"{key}.step.period_s", f"{step.period_s} on {step.metric}", allowed, "choose 60", ALARM_API
        if not 1 <= step.periods <= max(1, _DAY_S // max(1, step.period_s)):
            allowed = f"1 or more, together at most {_DAY_S} s"
            yield f"{key}.step.periods", f"{step.periods} x {step.period_s} s", allowed, "look less far back", ALARM_API


def step_metric_exists(model: ModelSpec) -> Iterator[Finding]:
    """A step on a custom metric needs one; an async endpoint publishes neither concurrency nor invocations."""
    for key, scaling, _, _, _ in scalings(model):
        if scaling.step is None:
            continue
        place, metric = f"{key}.step.metric", scaling.step.metric
        if metric == "custom" and scaling.custom is None:
            yield place, "'custom' without scaling.custom", "a metric that is given", "add [hosting.scaling.custom]", ""
        is_async = key == "hosting.batch.scaling" or model.hosting.mode is HostingMode.ASYNC
        if is_async and metric in {"concurrency", "invocations"}:
            yield place, f"{metric!r} on an async endpoint", "gpu or custom", "the backlog scales it", ASYNC_GUIDE


def _contiguous(steps: tuple[StepSpec, ...]) -> bool:
    if not 1 <= len(steps) <= _MAX_STEPS or steps[0].lower != 0 or steps[-1].upper is not None:
        return False
    inner = all(one.upper == other.lower for one, other in itertools.pairwise(steps))
    return inner and all(step.upper is None or step.lower < step.upper for step in steps)


def _period_is_legal(step: StepPolicySpec) -> bool:
    if step.metric == "concurrency" and step.period_s in _HIGH_RESOLUTION_S:
        return True
    return step.period_s >= _MINUTE_S and step.period_s % _MINUTE_S == 0


RULES: tuple[Rule, ...] = (
    something_is_tracked,
    targets_are_reachable,
    gpu_metrics_need_a_gpu,
    cooldowns_are_in_range,
    custom_metric_is_ours,
    steps_meet,
    steps_add,
    step_alarm_is_possible,
    step_metric_exists,
)
