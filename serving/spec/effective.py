"""What a model is in a stage: the model's own values with the stage's in their place."""

from __future__ import annotations

from dataclasses import replace

from serving.spec.hosting import BatchSpec, ComponentSpec, HostingSpec
from serving.spec.model import ModelSpec
from serving.spec.stage import StageBatch, StageModel


def in_stage(model: ModelSpec, entry: StageModel) -> ModelSpec:
    """Give the spec that a stage deploys; `hosting.batch` is None where the stage names no batch endpoint."""
    capture = model.drift.capture_percent if entry.capture_percent is None else entry.capture_percent
    deadline_ms = model.budget.deadline_ms if entry.deadline_ms is None else entry.deadline_ms
    return replace(
        model,
        hosting=_hosting(model.hosting, entry),
        drift=replace(model.drift, capture_percent=capture),
        budget=replace(model.budget, deadline_ms=deadline_ms),
    )


def _hosting(own: HostingSpec, entry: StageModel) -> HostingSpec:
    scaling = own.scaling if entry.schedules is None else replace(own.scaling, schedules=entry.schedules)
    return replace(
        own,
        instance_type=own.instance_type if entry.instance_type is None else entry.instance_type,
        min_count=own.min_count if entry.min_count is None else entry.min_count,
        max_count=own.max_count if entry.max_count is None else entry.max_count,
        scaling=scaling,
        component=_component(own.component, entry),
        batch=_batch(own.batch, entry.batch),
        deployment=own.deployment if entry.deployment is None else entry.deployment,
    )


def _component(own: ComponentSpec | None, entry: StageModel) -> ComponentSpec | None:
    if own is None:
        return None
    return replace(
        own,
        min_copies=own.min_copies if entry.min_copies is None else entry.min_copies,
        max_copies=own.max_copies if entry.max_copies is None else entry.max_copies,
    )


def _batch(own: BatchSpec | None, entry: StageBatch | None) -> BatchSpec | None:
    if own is None or entry is None:
        return None
    return replace(
        own,
        instance_type=own.instance_type if entry.instance_type is None else entry.instance_type,
        min_count=own.min_count if entry.min_count is None else entry.min_count,
        max_count=own.max_count if entry.max_count is None else entry.max_count,
    )
