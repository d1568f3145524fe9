"""Rules on async endpoints: a model's own (`mode = "async"`), and the batch endpoint beside a real-time one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from serving.spec.hosting import AsyncSpec, HostingMode
from serving.spec.model import ModelSpec
from serving.spec.rules.finding import Finding, Rule
from serving.spec.rules.source import ASYNC_GUIDE, ENDPOINT_API
from serving.spec.scaling import ScalingSpec

_CONCURRENT = range(1, 1001)
_PREFIX = re.compile(r"[a-z0-9][a-z0-9-]*(/[a-z0-9][a-z0-9-]*)*", re.ASCII)
_TAKEN_PREFIXES = ("capture",)  # of the same bucket (infra.buckets)


def _queues(model: ModelSpec) -> Iterator[tuple[str, AsyncSpec, ScalingSpec]]:
    """Give each async endpoint of a model: key of its settings, settings, scaling."""
    hosting = model.hosting
    if hosting.mode is HostingMode.ASYNC:
        yield "hosting", hosting.asynchronous, hosting.scaling
    if hosting.batch is not None:
        yield "hosting.batch", hosting.batch.asynchronous, hosting.batch.scaling


def concurrency_is_in_range(model: ModelSpec) -> Iterator[Finding]:
    """An instance works on 1 to 1,000 async requests at once."""
    for key, queue, _ in _queues(model):
        if queue.max_concurrent_invocations not in _CONCURRENT:
            place = f"{key}.asynchronous.max_concurrent_invocations"
            yield place, str(queue.max_concurrent_invocations), "1 to 1000", "correct it", ENDPOINT_API


def output_has_a_place(model: ModelSpec) -> Iterator[Finding]:
    """Answers are written under a prefix of their own, apart from what data capture writes."""
    for key, queue, _ in _queues(model):
        prefix = queue.output_prefix
        if not _PREFIX.fullmatch(prefix) or prefix.split("/")[0] in _TAKEN_PREFIXES:
            allowed = "lower-case words with - and /, not capture"
            yield f"{key}.asynchronous.output_prefix", repr(prefix), allowed, "name another", ENDPOINT_API


def backlog_drives_the_scaling(model: ModelSpec) -> Iterator[Finding]:
    """Async endpoints publish a backlog, and neither invocations nor concurrency; others publish no backlog."""
    for key, _, scaling in _queues(model):
        if scaling.target_backlog is None:
            yield (
                f"{key}.scaling.target_backlog",
                "nothing",
                "the waiting requests of an instance",
                "set it",
                ASYNC_GUIDE,
            )
        for name in ("target_concurrency", "target_invocations"):
            if getattr(scaling, name) is not None:
                got = f"{getattr(scaling, name):g} on an async endpoint"
                yield (
                    f"{key}.scaling.{name}",
                    got,
                    "target_backlog",
                    "async endpoints publish no such metric",
                    ASYNC_GUIDE,
                )
    if model.hosting.mode is not HostingMode.ASYNC and model.hosting.scaling.target_backlog is not None:
        got = f"{model.hosting.scaling.target_backlog:g} in mode {model.hosting.mode}"
        yield "hosting.scaling.target_backlog", got, "mode async", "use target_concurrency", ASYNC_GUIDE


def batch_counts_are_legal(model: ModelSpec) -> Iterator[Finding]:
    """A batch endpoint scales between 0 or more and 1 or more instances."""
    batch = model.hosting.batch
    if batch is not None and not 0 <= batch.min_count <= max(1, batch.max_count):
        got = f"{batch.min_count} (max_count {batch.max_count})"
        yield "hosting.batch.min_count", got, "0 to max_count", "correct one of them", ENDPOINT_API
    elif batch is not None and batch.max_count < 1:
        yield "hosting.batch.max_count", str(batch.max_count), "at least 1", "raise it", ENDPOINT_API


RULES: tuple[Rule, ...] = (
    concurrency_is_in_range,
    output_has_a_place,
    backlog_drives_the_scaling,
    batch_counts_are_legal,
)
