"""One stage is deployed, changed by hand, deployed again twice and destroyed: once a session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from serving.errors import LocalStackError
from serving.preflight.planned import Planned, read_planned
from serving.spec.load import load_project
from tests.integration.cdk_deploy.story import (
    MODERATOR,
    RANKER,
    REGISTRY,
    STAGE,
    Look,
    Preflight,
    World,
    leftovers,
    swapped,
)

AUTOSCALED_A = f"endpoint/{RANKER}/variant/a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Another instance type for the ranker: at once, and in the two deploys that the page names."""

    refused: str
    before_refused: Preflight
    after_refused: Look
    before_one: Preflight
    one: Look
    before_two: Preflight
    two: Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What each step left."""

    empty: Preflight
    before_first: Preflight
    first: Look
    first_templates: Planned
    read_back: dict[str, Any]
    by_hand: Look
    second_templates: Planned
    before_second: Preflight
    busy_swapped: Preflight
    second: Look
    before_third: Preflight
    third_log: str
    third: Look
    resize: Resize
    left: tuple[str, ...]
    stacks_left: dict[str, str]


@pytest.fixture(scope="session", name="story")
def story_fixture(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Tell the whole story once; nothing runs any more when the first claim is looked at."""
    world = World(root, tmp_path_factory.mktemp("cdk-deploy"))
    with world.stack as stack:
        stack.start_services()
        return _tell(world)


def _tell(world: World) -> Story:
    world.edit("recommendation_ranker", r"^versions = .*$", 'versions = { a = "2.0.0", b = "2.0.0" }')
    first = world.synth("first")
    empty = world.preflight(first)
    world.bootstrap()
    world.cdk.deploy("registry", REGISTRY, "--exclusively", out=first)
    world.publish()
    before_first = world.preflight(first)
    world.cdk.deploy("first", "--all", "--concurrency", "4", out=first)
    after_first, read_back = world.look(), _read_back(world)

    by_hand = _change_by_hand(world)
    world.edit("recommendation_ranker", r"^versions = .*$", 'versions = { a = "2.0.0", b = "3.0.0" }')
    world.publish()
    second = world.synth("second")
    before_second = world.preflight(second)
    busy_swapped = _swap_the_busy_slot(world, second)
    world.cdk.deploy("second", "--all", "--concurrency", "4", out=second)
    after_second = world.look()

    before_third = world.preflight(second)
    world.cdk.deploy("third", "--all", "--concurrency", "4", out=second)
    third = world.look()
    resize = _resize(world)
    world.cdk.destroy("destroy", out=second)
    return Story(
        empty=empty,
        before_first=before_first,
        first=after_first,
        first_templates=read_planned(first, stage=STAGE),
        read_back=read_back,
        by_hand=by_hand,
        second_templates=read_planned(second, stage=STAGE),
        before_second=before_second,
        busy_swapped=busy_swapped,
        second=after_second,
        before_third=before_third,
        third_log=world.log("cdk-third"),
        third=third,
        resize=resize,
        left=tuple(leftovers(world)),
        stacks_left=dict(world.look().stacks),
    )


def _read_back(world: World) -> dict[str, Any]:
    scaling, watch = world.client("application-autoscaling"), world.client("cloudwatch")
    return {
        "policies": scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"],
        "alarms": [
            alarm["AlarmName"]
            for page in watch.get_paginator("describe_alarms").paginate(AlarmNamePrefix=f"streamhub-{STAGE}-")
            for alarm in page["MetricAlarms"]
        ],
        "caches": world.client("elasticache").describe_serverless_caches()["ServerlessCaches"],
        "configs": {
            name: world.client("sagemaker").describe_endpoint_config(EndpointConfigName=found["EndpointConfigName"])
            for name, found in world.look().endpoints.items()
        },
    }


def _change_by_hand(world: World) -> Look:
    """Do what a release, an operator and a scaling policy do: weights, counts and a raised minimum."""
    sagemaker = world.client("sagemaker")
    for endpoint, wanted in (
        (RANKER, [{"VariantName": "a", "DesiredWeight": 5.0, "DesiredInstanceCount": 2}]),
        (MODERATOR, [{"VariantName": "a", "DesiredWeight": 3.0}, {"VariantName": "b", "DesiredWeight": 1.0}]),
    ):
        sagemaker.update_endpoint_weights_and_capacities(EndpointName=endpoint, DesiredWeightsAndCapacities=wanted)
        sagemaker.get_waiter("endpoint_in_service").wait(
            EndpointName=endpoint, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
    world.client("application-autoscaling").register_scalable_target(
        ServiceNamespace="sagemaker",
        ResourceId=AUTOSCALED_A,
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        MinCapacity=2,
    )
    return world.look()


def _swap_the_busy_slot(world: World, templates: Path) -> Preflight:
    """Ask about templates that somebody else might deploy: the new version where the traffic is."""
    locks = load_project(world.project).locks["recommendation_ranker"]
    folder = templates.parent / "swap"
    folder.mkdir()
    project, changed = swapped(world.project, templates, folder, old=locks["2.0.0"].sha256, new=locks["3.0.0"].sha256)
    return world.preflight(changed, project=project)


def _resize(world: World) -> Resize:
    model, line, larger = "recommendation_ranker", r"^instance_type = .*$", 'instance_type = "ml.c6i.xlarge"'
    world.edit(model, line, larger)
    resized = world.synth("resized", functions=False)
    before_refused, refused = world.preflight(resized), ""
    try:
        world.cdk.deploy("refused", RANKER, "--exclusively", out=resized)
    except LocalStackError as error:
        refused = str(error)
    after_refused = world.look()
    world.edit(model, line, 'instance_type = "ml.c6i.large"\nautoscaling = false')
    released = world.synth("released", functions=False)
    before_one = world.preflight(released)
    world.cdk.deploy("one", RANKER, "--exclusively", out=released)
    one = world.look()
    world.edit(model, r"^instance_type = .*\nautoscaling = false$", larger)
    before_two = world.preflight(resized)
    world.cdk.deploy("two", RANKER, "--exclusively", out=resized)
    return Resize(
        refused=refused,
        before_refused=before_refused,
        after_refused=after_refused,
        before_one=before_one,
        one=one,
        before_two=before_two,
        two=world.look(),
    )
