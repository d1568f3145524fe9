from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.sagemaker.endpoint import Endpoint, Fleet, Rollout, Variant
from local.sagemaker.plan import Plan, Step
from local.sagemaker.routes import Route, Target, Weighted, capture_rule, route_of
from local.sagemaker.workers import Workers
from serving.errors import EndpointError

SERVER = cast("Workers", object())


def target(variant: str) -> Target:
    return Target(endpoint="e", config="c", variant=variant, workers=SERVER, capture=None)


def route(weights: dict[str, float]) -> Route:
    return Route([Weighted(target(variant), weight) for variant, weight in weights.items()])


def fleet(number: int, *variants: tuple[str, float, int]) -> Fleet:
    held = tuple(Variant.settled(name, weight=weight, count=count) for name, weight, count in variants)
    return Fleet(number=number, config=f"c{number}", variants=held)


def endpoint(*fleets: Fleet, share: float = 0.0) -> Endpoint:
    first, *others = fleets
    rollouts = [
        Rollout(fleet=other, plan=Plan(steps=(Step(share=share, wait_s=1),)), began=0, step=1) for other in others
    ]
    return Endpoint(
        name="e", config="c1", status="InService", created=0, modified=0, fleet=first,
        rollout=rollouts[0] if rollouts else None,
    )  # fmt: skip


def steps_of(found: Route, steps: int = 1000) -> Counter[tuple[str, str]]:
    chosen = [found.choose((step + 0.5) / steps) for step in range(steps)]
    return Counter((target.config, target.variant) for target in chosen)


@given(
    weights=st.dictionaries(
        st.sampled_from("abcdef"), st.one_of(st.just(0.0), st.floats(0.001, 1000)), min_size=1
    ).filter(lambda weights: sum(weights.values()) > 0)
)
def test_each_variant_gets_its_weights_share_of_evenly_spread_chances(weights: dict[str, float]) -> None:
    chosen = route(weights)
    steps = 2000
    seen = [chosen.choose((step + 0.5) / steps).variant for step in range(steps)]
    total = sum(weights.values())
    for variant, weight in weights.items():
        # each variant's interval has two edges, and each edge may move one step
        assert abs(seen.count(variant) - steps * weight / total) <= 2


@given(chance=st.floats(0, 1, exclude_max=True))
def test_a_variant_of_weight_0_is_never_chosen(chance: float) -> None:
    assert route({"a": 0, "b": 0.1, "c": 0}).choose(chance).variant == "b"


def test_a_variant_of_weight_0_can_be_named() -> None:
    found = route({"a": 1, "b": 0}).named("b")
    assert found is not None
    assert found.variant == "b"
    assert route({"a": 1}).named("z") is None


def test_without_any_weight_the_choice_fails_by_name() -> None:
    with pytest.raises(EndpointError, match="no production variant has a weight above 0"):
        route({"a": 0}).choose(0.5)


SERVERS = {1: {"a": SERVER, "b": SERVER}, 2: {"a": SERVER, "b": SERVER}}


def test_a_variant_without_instances_takes_no_request_even_when_named() -> None:
    found = route_of(endpoint(fleet(1, ("a", 9, 0), ("b", 1, 2))), {1: {}}, SERVERS)
    assert {found.choose(chance / 10).variant for chance in range(10)} == {"b"}
    assert found.named("a") is None


def test_each_fleet_takes_its_share_and_its_weights_divide_that() -> None:
    blue, green = fleet(1, ("a", 3, 1), ("b", 1, 1)), fleet(2, ("a", 100, 1), ("b", 100, 1))
    found = route_of(endpoint(blue, green, share=0.2), {1: {}, 2: {}}, SERVERS)
    assert steps_of(found) == {("c1", "a"): 600, ("c1", "b"): 200, ("c2", "a"): 100, ("c2", "b"): 100}
    named = Counter(found.named("b", (step + 0.5) / 100).config for step in range(100))  # type: ignore[union-attr]
    assert named == {"c1": 80, "c2": 20}


def test_a_fleet_whose_processes_are_not_there_yet_leaves_all_requests_to_the_other() -> None:
    found = route_of(endpoint(fleet(1, ("a", 1, 1)), fleet(2, ("a", 1, 1)), share=0.5), {1: {}, 2: {}}, {1: SERVERS[1]})
    assert steps_of(found) == {("c1", "a"): 1000}


def test_the_shadow_sees_its_weight_over_the_production_variants() -> None:
    config = {
        "EndpointConfigName": "c1",
        "ProductionVariants": [{"VariantName": "a", "InitialVariantWeight": 2}],
        "ShadowProductionVariants": [{"VariantName": "b", "InitialVariantWeight": 0.5}],
    }
    chosen = route_of(endpoint(fleet(1, ("a", 2, 1))), {1: config}, SERVERS).choose(0.9)
    assert chosen.shadow is not None
    assert (chosen.variant, chosen.shadow.variant, chosen.shadow_share) == ("a", "b", 0.25)


CAPTURE = {
    "EnableCapture": True,
    "InitialSamplingPercentage": 30,
    "DestinationS3Uri": "s3://b/p",
    "CaptureOptions": [{"CaptureMode": "Input"}],
}


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (["Input"], (True, False)),
        (["Output"], (False, True)),
        (["Input", "Output"], (True, True)),
        (["InputAndOutput"], (True, True)),
    ],
)
def test_capture_options_say_which_side_is_kept(modes: list[str], expected: tuple[bool, bool]) -> None:
    rule = capture_rule(CAPTURE | {"CaptureOptions": [{"CaptureMode": mode} for mode in modes]})
    assert rule is not None
    assert (rule.input, rule.output) == expected


@pytest.mark.parametrize("config", [None, CAPTURE | {"EnableCapture": False}, {"CaptureOptions": []}])
def test_nothing_is_captured_unless_it_is_enabled(config: dict[str, Any] | None) -> None:
    assert capture_rule(config) is None
