"""The release record: the truth about a model's traffic, one a model, with a version for compare-and-set.

REGISTERED ─▶ CANARY ─▶ DECISION ─▶ PROMOTING ─▶ PROMOTED
                 │          ├─────▶ INCONCLUSIVE
                 └──────────┴─────▶ ROLLING_BACK ─▶ ROLLED_BACK
PAUSED keeps its share; `resume` goes back to where it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from serving.spec.stage import Slot


class ReleaseState(StrEnum):
    """Where a release is."""

    REGISTERED = "registered"
    CANARY = "canary"
    DECISION = "decision"
    PROMOTING = "promoting"
    PROMOTED = "promoted"
    ROLLING_BACK = "rolling-back"
    ROLLED_BACK = "rolled-back"
    INCONCLUSIVE = "inconclusive"
    PAUSED = "paused"


TERMINAL = frozenset({ReleaseState.PROMOTED, ReleaseState.ROLLED_BACK, ReleaseState.INCONCLUSIVE})
LIVE = frozenset({ReleaseState.CANARY, ReleaseState.DECISION, ReleaseState.PAUSED})
"""States in which the challenger has traffic that is evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRecord:
    """One release of one model.

    `share` is the challenger's part of keyed traffic, 0..1. `saved_weights` are the endpoint's weights before the
    release; a rollback restores them. `saved_instances` carried all traffic then: a share of it needs that share of
    them. `version` counts writes from 1. `resume_state` is set while PAUSED.
    """

    release_id: str
    model: str
    policy: str
    state: ReleaseState
    production: Slot
    challenger: Slot
    production_version: str
    challenger_version: str
    stage_index: int
    share: float
    salt: str
    saved_weights: dict[Slot, float]
    version: int
    started_at: datetime
    stage_started_at: datetime
    updated_at: datetime
    actor: str
    reason: str
    resume_state: ReleaseState | None = None
    saved_instances: int = 1

    @property
    def terminal(self) -> bool:
        """Nothing more happens by itself."""
        return self.state in TERMINAL

    @property
    def live(self) -> bool:
        """The challenger has traffic that is evidence."""
        return self.state in LIVE


def other_slot(slot: Slot) -> Slot:
    """Give the slot that is not this one."""
    return "b" if slot == "a" else "a"
