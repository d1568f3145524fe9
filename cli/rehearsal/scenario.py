"""What a rehearsal plays: how the challenger really is, and what happens around the release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from serving.errors import ReleaseError


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The truth that the release has to find out.

    `uplift` is the challenger's relative click rate less 1, `slowness` its latency over production's, `error_rate` the
    share of its requests that fail, `drifts_on_day` when the inputs begin to differ from those of training.
    """

    text: str
    uplift: float = 0.0
    slowness: float = 1.0
    error_rate: float = 0.001
    drifts_on_day: float | None = None


CONTROL: Final = Scenario(text="production")
SCENARIOS: Final[Mapping[str, Scenario]] = {
    "better": Scenario(text="5% more clicks", uplift=0.05),
    "same": Scenario(text="no difference"),
    "worse": Scenario(text="5% fewer clicks", uplift=-0.05),
    "slow": Scenario(text="5% more clicks, every answer takes 1.5 times as long", uplift=0.05, slowness=1.5),
    "broken": Scenario(text="5% more clicks, one request in twenty fails", uplift=0.05, error_rate=0.05),
    "drifting": Scenario(text="5% more clicks, inputs change on day 4", uplift=0.05, drifts_on_day=3.0),
}


FAULTS: Final[Mapping[str, tuple[str, float]]] = {
    "capacity": ("no instances are to be had", 0.5),
    "deployment": ("somebody deploys a config that fails; its alarm takes it back", 0.0),
    "evidence": ("the table of evidence cannot be read", 0.25),
    "clock": ("the controller's clock is a day behind", 0.25),
    "silence": ("no tick runs", 0.5),
}
"""What each does, and for how many days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong from a day on, counted from 0."""

    kind: str
    day: float

    def active(self, day: float) -> bool:
        """Say whether it goes on at that moment."""
        return self.day <= day < self.day + FAULTS[self.kind][1]


def fault_of(text: str) -> Fault:
    """Give the fault that is written as `capacity@1.5`.

    Raises:
        ReleaseError: the kind is unknown, or the day no number from 0 on.

    """
    kind, _, day = text.partition("@")
    try:
        at = float(day)
    except ValueError:
        at = -1.0
    if kind not in FAULTS or not 0 <= at < float("inf"):
        raise ReleaseError(
            f"fault: got {text!r}; allowed {', '.join(FAULTS)} with a day from 0 on; write it as capacity@1.5"
        )
    return Fault(kind=kind, day=at)
