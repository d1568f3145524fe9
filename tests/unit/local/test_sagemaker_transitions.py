"""What reaches an endpoint late, or of a fleet that is gone, and what a lost fleet costs.

Sources: SageMaker API reference, DescribeEndpoint (EndpointStatus); guide, *Deployment guardrails*: while a new fleet
bakes the old one stands by, and takes all traffic back.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from local.sagemaker.endpoint import Endpoint, Variant
from local.sagemaker.plan import Plan, Step
from local.sagemaker.transitions import (
    Alarmed,
    Created,
    Durations,
    Event,
    Healthy,
    Lost,
    Terminate,
    Ticked,
    Unhealthy,
    Updated,
    create,
    step,
)

TAKES = Durations(scaling_s=1, rolling_back_s=1, deleting_s=1)
VARIANTS = (Variant.settled("a", weight=1, count=1),)
BAKES = Plan(steps=(Step(share=0.5, wait_s=300), Step(share=1, wait_s=0)), alarms=("p99",))


def after(endpoint: Endpoint, *events: Event, now: float = 0) -> Endpoint:
    for event in events:
        found, _ = step(endpoint, event, now=now, takes=TAKES)
        assert found is not None
        endpoint = found
    return endpoint


def baking() -> Endpoint:
    """Give an endpoint on fleet 1 whose fleet 2 bakes under an alarm."""
    made, _ = create(Created(name="e", config="old", variants=VARIANTS), now=0)
    return after(made, Healthy(fleet=1), Updated(config="new", variants=VARIANTS, plan=BAKES), Healthy(fleet=2))


@pytest.mark.parametrize("number", [0, 3])
def test_what_is_told_of_a_fleet_that_an_endpoint_does_not_have_changes_nothing(number: int) -> None:
    endpoint = baking()
    for event in (
        Healthy(fleet=number),
        Unhealthy(fleet=number, reason="late"),
        Alarmed(fleet=number),
        Lost(fleet=number, reason="late"),
    ):
        assert step(endpoint, event, now=1, takes=TAKES) == (endpoint, ())


def test_an_alarm_that_rang_over_one_deployment_does_not_take_back_the_next() -> None:
    done = after(baking(), Ticked(), now=300)
    assert (done.status, done.config) == ("InService", "new")
    following = after(done, Updated(config="newest", variants=VARIANTS, plan=BAKES), Healthy(fleet=3), now=300)
    assert after(following, Alarmed(fleet=2), now=301) == following
    assert after(following, Alarmed(fleet=3), now=301).config == "new"


def test_a_new_fleet_that_a_restart_lost_is_taken_back_and_the_old_one_serves() -> None:
    endpoint = baking()
    found, effects = step(endpoint, Lost(fleet=2, reason="no archive"), now=1, takes=TAKES)
    assert found == replace(endpoint, status="InService", modified=1, rollout=None, failure="no archive")
    assert [effect.fleet.number for effect in effects if isinstance(effect, Terminate)] == [2]


def test_an_endpoint_whose_own_fleet_is_lost_has_failed_and_keeps_no_fleet() -> None:
    found, effects = step(baking(), Lost(fleet=1, reason="no archive"), now=1, takes=TAKES)
    assert found is not None
    assert (found.status, found.failure, found.fleet, found.rollout) == ("Failed", "no archive", None, None)
    assert [effect.fleet.number for effect in effects if isinstance(effect, Terminate)] == [1, 2]
