"""Rules on inference components: what one copy takes, and how many the instances hold."""

from __future__ import annotations

from collections.abc import Iterator

from serving.spec.hosting import ComponentSpec, HostingMode
from serving.spec.instances import instance_types
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.instances import wants_gpu
from serving.spec.rules.source import COMPONENT_API, ZERO_GUIDE
from serving.spec.rules.stage_model import Placed, PlacedRule
from serving.spec.runtime import VllmRuntime
from serving.spec.stage import SLOTS

_LEAST_MEMORY_MIB = 128
_LEAST_CPUS = 0.25
_KEY = "hosting.component"


def _component(model: ModelSpec) -> ComponentSpec | None:
    return model.hosting.component if model.hosting.mode is HostingMode.COMPONENTS else None


def copy_has_the_runtimes_accelerators(model: ModelSpec) -> Iterator[Finding]:
    """A copy takes as many GPUs as its runtime is split over: fewer do not start, more stand idle."""
    component = _component(model)
    if component is None:
        return
    wanted = model.runtime.tensor_parallel if isinstance(model.runtime, VllmRuntime) else int(wants_gpu(model))
    if component.accelerators != wanted:
        allowed = f"{wanted}, as the runtime is split"
        yield f"{_KEY}.accelerators", str(component.accelerators), allowed, "make them the same", COMPONENT_API


def copy_fits_the_type(model: ModelSpec) -> Iterator[Finding]:
    """One copy lies in one instance: its GPUs, memory and cores are at most the type's."""
    component = _component(model)
    found = instance_types().get(model.hosting.instance_type)
    if component is None or found is None:
        return
    cpus = component.cpus if component.cpus is not None else _LEAST_CPUS
    for name, value, lowest, highest in (
        ("accelerators", component.accelerators, 0, found.gpus),
        ("memory_mib", component.memory_mib, _LEAST_MEMORY_MIB, found.memory_mib),
        ("cpus", cpus, _LEAST_CPUS, found.vcpus),
    ):
        if not lowest <= value <= highest:
            allowed = f"{lowest:g} to {highest}, what {found.name} has"
            yield f"{_KEY}.{name}", f"{value:g}", allowed, "lower it, or choose a larger type", COMPONENT_API


def copies_are_legal(model: ModelSpec) -> Iterator[Finding]:
    """Copies scale between a minimum of 0 or more and a maximum of 1 or more."""
    component = _component(model)
    if component is not None and not 0 <= component.min_copies <= max(1, component.max_copies):
        got = f"{component.min_copies} (max_copies {component.max_copies})"
        yield f"{_KEY}.min_copies", got, "0 to max_copies", "correct one of them", COMPONENT_API
    elif component is not None and component.max_copies < 1:
        yield f"{_KEY}.max_copies", str(component.max_copies), "at least 1", "raise it", COMPONENT_API


def copies_fit_the_instances(model: ModelSpec) -> Iterator[Finding]:
    """One component at its maximum beside the other at its minimum must find room in `max_count` instances."""
    component = _component(model)
    found = instance_types().get(model.hosting.instance_type)
    if component is None or found is None or component.memory_mib < 1:
        return
    by_memory = found.memory_mib // component.memory_mib
    by_gpu = found.gpus // component.accelerators if component.accelerators > 0 else by_memory
    room = model.hosting.max_count * min(by_gpu, by_memory)
    wanted = component.max_copies + max(1, component.min_copies)
    if wanted > room:
        got = f"{component.max_copies}, with {max(1, component.min_copies)} of the other component"
        allowed = f"together at most {room}: {model.hosting.max_count} x {found.name}"
        yield f"{_KEY}.max_copies", got, allowed, "lower it, or raise hosting.max_count", COMPONENT_API


def zero_is_for_both(model: ModelSpec) -> Iterator[Finding]:
    """An endpoint goes to zero instances only when its components may go to zero copies, and then needs a target."""
    component, hosting = _component(model), model.hosting
    if component is None:
        return
    if hosting.min_count == 0 and component.min_copies > 0:
        got = f"0 with min_copies {component.min_copies}"
        yield "hosting.min_count", got, "1 or more, or min_copies = 0", "make both 0, or neither", ZERO_GUIDE
    if component.min_copies == 0 and hosting.scaling.target_concurrency is None:
        fix = "set scaling.target_concurrency"
        yield f"{_KEY}.min_copies", "0 with no target of concurrency", "a target to scale in by", fix, ZERO_GUIDE


def both_components_fit(placed: Placed) -> Iterator[Finding]:
    """Both components at their most find room: else the one that scales second waits for what no instance has."""
    component, hosting = _component(placed.model), placed.model.hosting
    found = instance_types().get(hosting.instance_type)
    if component is None or found is None or component.accelerators < 1:
        return
    # a copy lies in one instance: what is left of an instance below a copy's share is no room
    room = hosting.max_count * (found.gpus // component.accelerators)
    wanted = len(SLOTS) * component.max_copies
    if wanted > room:
        got = f"{len(SLOTS)} components x {component.max_copies} copies x {component.accelerators} accelerators"
        allowed = f"{room} copies in all: {hosting.max_count} x {found.name} with {found.gpus} accelerators"
        yield f"{placed.key}.max_copies", got, allowed, "lower it, or raise max_count", COMPONENT_API


WARNINGS: tuple[PlacedRule, ...] = (both_components_fit,)
RULES: tuple[Rule, ...] = (
    copy_has_the_runtimes_accelerators,
    copy_fits_the_type,
    copies_are_legal,
    copies_fit_the_instances,
    zero_is_for_both,
)
