"""What an endpoint is at one moment: its status, the fleets that serve it and the deployment under way; frozen values.

`transitions.step` makes the next one; nothing here or there waits, starts or stops anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from local.sagemaker.plan import Plan, plan_of_document

Status = Literal["Creating", "Updating", "RollingBack", "InService", "Deleting", "Failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Weight and instances of one variant: what it has and what it shall have."""

    name: str
    weight: float
    count: int
    desired_weight: float
    desired_count: int

    @classmethod
    def settled(cls, name: str, *, weight: float, count: int) -> Variant:
        """Give a variant that has what it shall have."""
        return cls(name=name, weight=weight, count=count, desired_weight=weight, desired_count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The instances of one deployed config; `number` tells the fleets of an endpoint apart."""

    number: int
    config: str
    variants: tuple[Variant, ...]

    @property
    def instances(self) -> int:
        """How many instances all variants shall have."""
        return sum(variant.desired_count for variant in self.variants)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A deployment under way.

    `step` counts the plan's steps whose traffic is on, 0 while the fleet is provisioned. `due` is when the next thing
    happens by itself; None while the fleet is awaited.
    """

    fleet: Fleet
    plan: Plan
    began: float
    step: int = 0
    due: float | None = None

    @property
    def share(self) -> float:
        """The new fleet's share of the traffic, 0 to 1."""
        return self.plan.steps[self.step - 1].share if self.step else 0.0

    @property
    def bakes(self) -> bool:
        """Whether alarms decide over it now: from its first traffic to its end."""
        return self.step > 0 and bool(self.plan.alarms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One endpoint. `fleet` is what serves by right; `due` is when a change of weights or the deletion is done."""

    name: str
    config: str
    status: Status
    created: float
    modified: float
    fleet: Fleet | None = None
    rollout: Rollout | None = None
    due: float | None = None
    failure: str = ""
    fleets_made: int = 0

    @property
    def next_due(self) -> float | None:
        """When something happens by itself, if anything does."""
        found = [due for due in (self.due, self.rollout.due if self.rollout else None) if due is not None]
        return min(found, default=None)

    @property
    def shares(self) -> tuple[tuple[Fleet, float], ...]:
        """The fleets that take requests, each with its share of them."""
        if self.status == "Deleting" or self.fleet is None:
            return ()
        if self.rollout is None or self.rollout.share == 0:
            return ((self.fleet, 1.0),)
        return ((self.fleet, 1.0 - self.rollout.share), (self.rollout.fleet, self.rollout.share))


def endpoint_of_document(document: Mapping[str, Any]) -> Endpoint:
    """Give the endpoint that was written as JSON."""
    rollout = document["rollout"]
    return Endpoint(
        **{
            **document,
            "fleet": _fleet(document["fleet"]) if document["fleet"] else None,
            "rollout": _rollout(rollout) if rollout else None,
        }
    )


def _fleet(document: Mapping[str, Any]) -> Fleet:
    return Fleet(**{**document, "variants": tuple(Variant(**variant) for variant in document["variants"])})


def _rollout(document: Mapping[str, Any]) -> Rollout:
    return Rollout(**{**document, "fleet": _fleet(document["fleet"]), "plan": plan_of_document(document["plan"])})
