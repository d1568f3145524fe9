"""What happens to an endpoint: (endpoint, event, now) -> (endpoint, effects); pure, and all of the rules.

Sources: SageMaker API reference (CreateEndpoint, UpdateEndpoint, UpdateEndpointWeightsAndCapacities, DeleteEndpoint,
DescribeEndpoint's EndpointStatus); guide, *Deployment guardrails*. A deployment that an alarm takes back ends InService
on the old config and says nothing, so a caller must compare config names; one whose fleet never became healthy does
the same, with a FailureReason here (AWS documents that field for Failed only).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from local.aws_json import ValidationError
from local.sagemaker.endpoint import Endpoint, Fleet, Rollout, Status, Variant
from local.sagemaker.plan import ALL_AT_ONCE, Plan

_TIMED_OUT = "The deployment did not end within MaximumExecutionTimeoutInSeconds."


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Seconds that SageMaker takes where no policy says how many."""

    scaling_s: float
    rolling_back_s: float
    deleting_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """CreateEndpoint."""

    name: str
    config: str
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """UpdateEndpoint."""

    config: str
    variants: tuple[Variant, ...]
    plan: Plan = ALL_AT_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescaled:
    """UpdateEndpointWeightsAndCapacities: new weight and count by variant, None for as before."""

    changes: Mapping[str, tuple[float | None, int | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthy:
    """All containers of a fleet pass their health check."""

    fleet: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhealthy:
    """A fleet cannot be provisioned."""

    fleet: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarmed:
    """One of the alarms over a fleet's deployment is in ALARM."""

    fleet: int


@dataclass(frozen=True, slots=True)
class NoCapacity:
    """The instances that were asked for are not to be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A fleet that served cannot be brought back after a restart."""

    fleet: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """DeleteEndpoint."""


Event = Created | Updated | Rescaled | Healthy | Unhealthy | Alarmed | NoCapacity | Lost | Ticked | Deleted


@dataclass(frozen=True, slots=True)
class Provision:
    """Start the fleet; its end is told as Healthy or Unhealthy."""

    fleet: Fleet


@dataclass(frozen=True, slots=True)
class Terminate:
    """End the fleet once what it was asked is answered."""

    fleet: Fleet


@dataclass(frozen=True, slots=True)
class Forget:
    """The endpoint is no more."""


Effect = Provision | Terminate | Forget
Next = tuple[Endpoint | None, tuple[Effect, ...]]


def create(event: Created, *, now: float) -> tuple[Endpoint, tuple[Effect, ...]]:
    """Give a new endpoint, Creating until its first fleet is healthy."""
    fleet = Fleet(number=1, config=event.config, variants=event.variants)
    rollout = Rollout(fleet=fleet, plan=ALL_AT_ONCE, began=now)
    made = Endpoint(
        name=event.name,
        config=event.config,
        status="Creating",
        created=now,
        modified=now,
        rollout=rollout,
        fleets_made=fleet.number,
    )
    return made, (Provision(fleet),)


def step(endpoint: Endpoint, event: Event, *, now: float, takes: Durations) -> Next:
    """Give what an endpoint becomes, and what must be done for it.

    An event that comes too late, of a fleet that is given up or a timer that is no longer due, changes nothing.

    Raises:
        ValidationError: a call that this status forbids.

    """
    return _HANDLERS[type(event)](endpoint, event, now, takes)


def _created(endpoint: Endpoint, _event: Created, _now: float, _takes: Durations) -> Next:
    raise ValidationError(f"endpoint {endpoint.name} exists already")


def _updated(endpoint: Endpoint, event: Updated, now: float, _takes: Durations) -> Next:
    refuse_in_progress(endpoint)
    fleet = Fleet(number=endpoint.fleets_made + 1, config=event.config, variants=event.variants)
    rollout = Rollout(fleet=fleet, plan=event.plan, began=now)
    moved = _move(endpoint, "Updating", now, rollout=rollout, failure="", fleets_made=fleet.number)
    return moved, (Provision(fleet),)


def _rescaled(endpoint: Endpoint, event: Rescaled, now: float, takes: Durations) -> Next:
    refuse_in_progress(endpoint)
    variants = tuple(_desire(variant, event.changes.get(variant.name, (None, None))) for variant in _fleet(endpoint))
    return _move(_with(endpoint, variants), "Updating", now, due=now + takes.scaling_s), ()


def _healthy(endpoint: Endpoint, event: Healthy, now: float, _takes: Durations) -> Next:
    rollout = endpoint.rollout
    if rollout is None or rollout.fleet.number != event.fleet or rollout.step:
        return endpoint, ()
    return _advance(endpoint, rollout, now)


def _unhealthy(endpoint: Endpoint, event: Unhealthy, now: float, _takes: Durations) -> Next:
    rollout = endpoint.rollout
    if rollout is None or rollout.fleet.number != event.fleet:
        return endpoint, ()
    if endpoint.fleet is None:
        return _move(endpoint, "Failed", now, rollout=None, failure=event.reason), (Terminate(rollout.fleet),)
    return _roll_back(endpoint, rollout, now, event.reason)


def _alarmed(endpoint: Endpoint, event: Alarmed, now: float, _takes: Durations) -> Next:
    rollout = endpoint.rollout
    if rollout is None or rollout.fleet.number != event.fleet or not rollout.bakes:
        return endpoint, ()
    return _roll_back(endpoint, rollout, now, "")


def _no_capacity(endpoint: Endpoint, _event: NoCapacity, now: float, takes: Durations) -> Next:
    if endpoint.status != "Updating" or endpoint.rollout is not None:
        return endpoint, ()
    variants = tuple(
        Variant.settled(variant.name, weight=variant.weight, count=variant.count) for variant in _fleet(endpoint)
    )
    return _move(_with(endpoint, variants), "RollingBack", now, due=now + takes.rolling_back_s), ()


def _lost(endpoint: Endpoint, event: Lost, now: float, _takes: Durations) -> Next:
    rollout = endpoint.rollout
    if rollout is not None and rollout.fleet.number == event.fleet:
        return _roll_back(endpoint, rollout, now, event.reason)
    if endpoint.fleet is None or endpoint.fleet.number != event.fleet:
        return endpoint, ()
    failed = _move(endpoint, "Failed", now, fleet=None, rollout=None, due=None, failure=event.reason)
    return failed, _terminated(endpoint)


def _ticked(endpoint: Endpoint, _event: Ticked, now: float, _takes: Durations) -> Next:
    if endpoint.due is not None and endpoint.due <= now:
        return _done(endpoint, now)
    rollout = endpoint.rollout
    if rollout is None or rollout.due is None or rollout.due > now:
        return endpoint, ()
    if now - rollout.began > rollout.plan.timeout_s:
        return _roll_back(endpoint, rollout, now, _TIMED_OUT)
    return _advance(endpoint, rollout, now)


def _deleted(endpoint: Endpoint, _event: Deleted, now: float, takes: Durations) -> Next:
    if endpoint.status == "Deleting":
        return endpoint, ()
    gone = _move(endpoint, "Deleting", now, due=now + takes.deleting_s, fleet=None, rollout=None)
    return gone, _terminated(endpoint)


_HANDLERS: Mapping[type, Callable[[Endpoint, Any, float, Durations], Next]] = {
    Created: _created,
    Updated: _updated,
    Rescaled: _rescaled,
    Healthy: _healthy,
    Unhealthy: _unhealthy,
    Alarmed: _alarmed,
    NoCapacity: _no_capacity,
    Lost: _lost,
    Ticked: _ticked,
    Deleted: _deleted,
}


def refuse_in_progress(endpoint: Endpoint, *, arn: str = "") -> None:
    """Raise unless the endpoint can be changed; its name stands for the ARN where none is given."""
    named = arn or endpoint.name
    if endpoint.status == "Failed":
        raise ValidationError(f'Endpoint "{named}" is Failed; delete it and create it anew.')
    if endpoint.status != "InService":
        raise ValidationError(f'Cannot update in-progress endpoint "{named}".')


def _advance(endpoint: Endpoint, rollout: Rollout, now: float) -> Next:
    """Turn on the next step's traffic; after the last one the old fleet waits, then ends."""
    plan = rollout.plan
    while rollout.step < len(plan.steps):
        taken = plan.steps[rollout.step]
        last = rollout.step + 1 == len(plan.steps)
        wait_s = taken.wait_s + (plan.termination_wait_s if last else 0.0)
        rollout = replace(rollout, step=rollout.step + 1, due=now + wait_s)
        if wait_s > 0:
            return replace(endpoint, rollout=rollout), ()
    moved = _move(endpoint, "InService", now, config=rollout.fleet.config, fleet=rollout.fleet, rollout=None)
    return moved, (Terminate(endpoint.fleet),) if endpoint.fleet else ()


def _roll_back(endpoint: Endpoint, rollout: Rollout, now: float, reason: str) -> Next:
    return _move(endpoint, "InService", now, rollout=None, failure=reason), (Terminate(rollout.fleet),)


def _terminated(endpoint: Endpoint) -> tuple[Terminate, ...]:
    fleets = (endpoint.fleet, endpoint.rollout.fleet if endpoint.rollout else None)
    return tuple(Terminate(fleet) for fleet in fleets if fleet)


def _done(endpoint: Endpoint, now: float) -> Next:
    if endpoint.status == "Deleting":
        return None, (Forget(),)
    settled = tuple(
        Variant.settled(variant.name, weight=variant.desired_weight, count=variant.desired_count)
        for variant in _fleet(endpoint)
    )
    return _move(_with(endpoint, settled), "InService", now, due=None), ()


def _move(endpoint: Endpoint, status: Status, now: float, **changes: Any) -> Endpoint:  # noqa: ANN401 - of Endpoint
    return replace(endpoint, status=status, modified=now, **changes)


def _fleet(endpoint: Endpoint) -> Sequence[Variant]:
    return endpoint.fleet.variants if endpoint.fleet else ()


def _with(endpoint: Endpoint, variants: tuple[Variant, ...]) -> Endpoint:
    return replace(endpoint, fleet=replace(endpoint.fleet, variants=variants)) if endpoint.fleet else endpoint


def _desire(variant: Variant, change: tuple[float | None, int | None]) -> Variant:
    weight, count = change
    return replace(
        variant,
        desired_weight=variant.desired_weight if weight is None else weight,
        desired_count=variant.desired_count if count is None else count,
    )
