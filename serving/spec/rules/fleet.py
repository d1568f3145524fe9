"""Warnings on fleets: quotas that new accounts do not have, GPUs that stand idle, peaks that do not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from serving.spec.hosting import HostingMode, Strategy
from serving.spec.images import image_key
from serving.spec.instances import instance_types
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.instances import wants_gpu
from serving.spec.rules.stage_model import Placed, PlacedRule
from serving.spec.stage import SLOTS

_QUOTAS = "AWS Service Quotas, ml.* for endpoint usage"
_SUPPORT = "AWS Deep Learning Containers, support policy"
_UNPATCHED = dict.fromkeys(("pytorch-cpu", "pytorch-gpu"), "2026-06-30")
_MS = 1000


def quotas_may_be_nought(placed: Placed) -> Iterator[Finding]:
    """Large accelerated types have an endpoint quota of 0 in most new accounts; a blue/green update needs it twice."""
    hosting, shadow = placed.model.hosting, placed.entry.shadow
    needed: Counter[str] = Counter()
    fleets = 1 if hosting.mode is not HostingMode.REALTIME else len(SLOTS)
    twice = 1 if hosting.deployment.strategy is Strategy.ROLLING else 2
    needed[hosting.instance_type] += hosting.max_count * fleets * twice
    if (batch := hosting.batch) is not None:
        needed[batch.instance_type if batch.instance_type is not None else hosting.instance_type] += batch.max_count
    if shadow is not None:
        own = shadow.instance_type if shadow.instance_type is not None else hosting.instance_type
        needed[own] += shadow.count * len(SLOTS)
    for name, count in needed.items():
        found = instance_types().get(name)
        if found is not None and found.quota_prone:
            allowed = f"a quota of {count} ({name} for endpoint usage), which new accounts often lack"
            yield f"{placed.key}.instance_type", name, allowed, "ask for it before the deploy", _QUOTAS


def gpus_have_work(placed: Placed) -> Iterator[Finding]:
    """A model for the CPU on a GPU type pays for what it does not use."""
    found = instance_types().get(placed.model.hosting.instance_type)
    if found is not None and found.gpus > 0 and not wants_gpu(placed.model):
        got = f"{found.name}, whose {found.gpus} GPU does nothing"
        yield f"{placed.key}.instance_type", got, "a type without a GPU", "choose ml.c* or ml.m*", ""


def images_are_patched(placed: Placed) -> Iterator[Finding]:
    """AWS patches the PyTorch inference containers no more; an image of one's own by digest is one's own to patch."""
    key = image_key(placed.own)
    if key in _UNPATCHED and key not in placed.stage.images:
        allowed = f"an image that is patched; AWS ended it on {_UNPATCHED[key]}"
        yield f"{placed.key}", f"the image {key}", allowed, f"serve it by Triton, or give images.{key}", _SUPPORT


def rolling_has_a_second_instance(placed: Placed) -> Iterator[Finding]:
    """A rolling batch is at most half of the fleet: one instance is replaced whole."""
    hosting = placed.model.hosting
    single = hosting.mode is HostingMode.ASYNC and hosting.min_count == 1
    if hosting.deployment.strategy is Strategy.ROLLING and single:
        yield f"{placed.key}.min_count", "1 with rolling", "2 or more", "raise it", "AWS API_RollingUpdatePolicy"


def peak_fits_the_fleet(model: ModelSpec) -> Iterator[Finding]:
    """Requests at once at peak, by Little's law from `budget.invoke_ms`, are at most what the largest fleet carries."""
    hosting, target = model.hosting, model.hosting.scaling.target_concurrency
    if target is None or hosting.mode is HostingMode.ASYNC:
        return
    units = hosting.component.max_copies if hosting.component is not None else hosting.max_count
    at_once = model.slo.peak_qps * model.budget.invoke_ms / _MS
    if at_once > units * target:
        got = f"{model.slo.peak_qps:g} a second, {at_once:.0f} at once"
        allowed = f"{units * target:g} at once: {units} x scaling.target_concurrency"
        yield "slo.peak_qps", got, allowed, "raise the largest count, or promise less", "Little's law"


WARNINGS: tuple[PlacedRule, ...] = (
    quotas_may_be_nought,
    gpus_have_work,
    images_are_patched,
    rolling_has_a_second_instance,
)
MODEL_WARNINGS: tuple[Rule, ...] = (peak_fits_the_fleet,)
