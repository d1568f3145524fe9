"""Rules on what runs a model and on its tensors."""

from __future__ import annotations

from collections.abc import Iterator

from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.runtime import TritonRuntime
from serving.spec.tensors import TensorSpec


def tensors_are_sound(model: ModelSpec) -> Iterator[Finding]:
    """Names are distinct, dimensions positive or -1, ranges ascending."""
    for section, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        if not tensors:
            yield section, "none", "at least one tensor", f"add [[{section}]]", ""
        if len({tensor.name for tensor in tensors}) != len(tensors):
            yield section, "a name twice", "distinct names", "rename one", ""
        for index, tensor in enumerate(tensors):
            yield from _tensor(f"{section}[{index}]", tensor)


def _tensor(key: str, tensor: TensorSpec) -> Iterator[Finding]:
    if any(size != -1 and size < 1 for size in tensor.shape) or not tensor.shape:
        yield (
            f"{key}.shape",
            str(list(tensor.shape)),
            "dimensions of 1 or more, or -1",
            "correct it",
            "Triton model_config",
        )
    if tensor.range is not None and tensor.range[0] >= tensor.range[1]:
        yield f"{key}.range", str(list(tensor.range)), "[low, high] with low < high", "swap them", ""


def batching_leaves_time(model: ModelSpec) -> Iterator[Finding]:
    """A delay above a quarter of the p99 spends the budget on waiting (docs/serving.md)."""
    runtime = model.runtime
    if not isinstance(runtime, TritonRuntime):
        return
    limit_ms = model.slo.p99_ms / 4
    if not 0 <= runtime.max_queue_delay_ms <= limit_ms:
        got = f"{runtime.max_queue_delay_ms:g}"
        yield "runtime.max_queue_delay_ms", got, f"0 to {limit_ms:g} (a quarter of slo.p99_ms)", "shorten the delay", ""
    if runtime.max_batch_size < max(1, model.api.max_candidates):
        allowed = f"at least {max(1, model.api.max_candidates)} (the largest legal request)"
        yield "runtime.max_batch_size", str(runtime.max_batch_size), allowed, "raise the cap", ""
    if runtime.max_queue_size < runtime.max_batch_size:
        allowed = f"at least runtime.max_batch_size = {runtime.max_batch_size}"
        yield "runtime.max_queue_size", str(runtime.max_queue_size), allowed, "raise the queue bound", ""


RULES: tuple[Rule, ...] = (
    tensors_are_sound,
    batching_leaves_time,
)
