"""Rules on the steps of a Triton ensemble: what each reads was written before, in the same type and shape."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.runtime import EnsembleStepSpec, TritonRuntime
from serving.spec.tensors import TensorSpec

_SOURCE = "Triton user guide, *Ensemble models*"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


def ensemble_is_wired(model: ModelSpec) -> Iterator[Finding]:
    """Steps have names and files of their own, and pass tensors from the ensemble's inputs to its outputs."""
    runtime = model.runtime
    if not isinstance(runtime, TritonRuntime):
        return
    if (runtime.backend == "ensemble") != bool(runtime.steps):
        got = f"{runtime.backend!r} with {len(runtime.steps)} steps"
        yield (
            "runtime.backend",
            got,
            '"ensemble" with steps, another without',
            "add or remove [[runtime.steps]]",
            _SOURCE,
        )
        return
    yield from _name_findings(model, runtime)
    known = {tensor.name: tensor for tensor in model.inputs}
    read: set[str] = set()
    for index, step in enumerate(runtime.steps):
        key = f"runtime.steps[{index}]"
        yield from _map_findings(key, step)
        for tensor in step.inputs:
            source = step.reads.get(tensor.name, tensor.name)
            read.add(source)
            yield from _flow_findings(f"{key}.reads", tensor, source, known)
        for tensor in step.outputs:
            target = step.writes.get(tensor.name, tensor.name)
            if target in known:
                yield f"{key}.writes", repr(target), "a name that nothing else has", "rename it in writes", _SOURCE
            known[target] = tensor
    if runtime.steps:
        for output in model.outputs:
            yield from _flow_findings("outputs", output, output.name, known)
        for unread in sorted({tensor.name for tensor in model.inputs} - read):
            yield "inputs", repr(unread), "inputs that a step reads", "read it or remove it", _SOURCE


def _name_findings(model: ModelSpec, runtime: TritonRuntime) -> Iterator[Finding]:
    names = [step.name for step in runtime.steps]
    if len({*names, model.name}) != len(names) + 1:
        allowed = "names that differ from each other and from the model's"
        yield "runtime.steps", ", ".join(names), allowed, "rename one", _SOURCE
    for index, step in enumerate(runtime.steps):
        key = f"runtime.steps[{index}]"
        if _NAME.fullmatch(step.name) is None:
            yield (
                f"{key}.name",
                repr(step.name),
                "letters, digits and _ after a letter",
                "it names a folder: rename it",
                "",
            )
        if step.device == "gpu" and runtime.device == "cpu":
            yield f"{key}.device", "gpu", 'cpu, as runtime.device = "cpu"', "set runtime.device or the step's", ""
        if step.instances < 1:
            yield f"{key}.instances", str(step.instances), "at least 1", "raise it", ""
        if not step.inputs or not step.outputs:
            yield key, "a step without inputs or outputs", "at least one of each", "add its tensors", _SOURCE


def _map_findings(key: str, step: EnsembleStepSpec) -> Iterator[Finding]:
    for field, names, tensors in (("reads", step.reads, step.inputs), ("writes", step.writes, step.outputs)):
        own = sorted(tensor.name for tensor in tensors)
        if len(set(own)) != len(own):
            yield f"{key}.{field}", "a tensor twice", "distinct names", "rename one", ""
        for unknown in sorted(set(names) - set(own)):
            yield f"{key}.{field}", repr(unknown), f"tensors of the step: {', '.join(own)}", "correct it", _SOURCE


def _flow_findings(key: str, wanted: TensorSpec, source: str, known: Mapping[str, TensorSpec]) -> Iterator[Finding]:
    found = known.get(source)
    if found is None:
        yield key, repr(source), f"one of {', '.join(known)}, written before", "name it in reads or writes", _SOURCE
        return
    if (found.dtype, found.ragged) != (wanted.dtype, wanted.ragged):
        yield (
            key,
            f"{source!r} of {found.dtype}",
            f"{wanted.dtype} for {wanted.name!r}",
            "make the types equal",
            _SOURCE,
        )
    if not _fits(found.shape, wanted.shape):
        got = f"{source!r} of shape {list(found.shape)}"
        yield key, got, f"{list(wanted.shape)} for {wanted.name!r}", "make the shapes equal", _SOURCE


def _fits(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(found) == len(wanted) and all(-1 in (a, b) or a == b for a, b in zip(found, wanted, strict=True))


RULES: tuple[Rule, ...] = (ensemble_is_wired,)
