"""The hops of one request: what was asked, where it went, what came back, what it led to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from serving.spec import Slot


class Action(StrEnum):
    """What a moderation score leads to."""

    ALLOW = "allow"
    REVIEW = "review"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The truth about a model's traffic, as the release record says it; `challenger_share` is 0..1.

    `release_id` and `stage_index` are what evidence is counted under; without a release they are "" and 0.
    """

    production: Slot
    challenger_share: float
    release_id: str
    stage_index: int
    salt: str

    @classmethod
    def without_release(cls, model: str) -> Traffic:
        """Give the traffic of a model that never had a release: all of it to slot a."""
        return cls(production="a", challenger_share=0.0, release_id="", stage_index=0, salt=model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Where one unit goes: slot, its bucket (0..9999) for the split, and one of 256 for the variance."""

    slot: Slot
    bucket: int
    unit_bucket: int
    release_id: str
    stage_index: int
    challenger: bool
    keyed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """One answered (or failed) request, the unit of evidence; latency in ms, as the API saw the endpoint."""

    prediction_id: str
    model: str
    version: str
    assignment: Assignment
    weight: float
    latency_ms: float
    failed: bool
    degraded: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened after a prediction; the pair (prediction_id, event) counts once."""

    prediction_id: str
    event: Literal["click", "watch", "label"]
    value: float
    occurred_at: datetime
