from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.sagemaker.routes import Route, Target, capture_rule, route_of
from local.sagemaker.servers import ModelServer
from serving.errors import EndpointError

SERVER = cast("ModelServer", object())


def target(variant: str) -> Target:
    return Target(endpoint="e", config="c", variant=variant, server=SERVER, capture=None)


def route(weights: dict[str, float]) -> Route:
    return Route([target(variant) for variant in weights], weights)


def endpoint(*variants: tuple[str, float, int]) -> dict[str, Any]:
    return {
        "EndpointName": "e",
        "EndpointConfigName": "c",
        "ProductionVariants": [
            {"VariantName": name, "CurrentWeight": weight, "CurrentInstanceCount": count}
            for name, weight, count in variants
        ],
    }


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


def test_a_variant_without_instances_takes_no_request_even_when_named() -> None:
    found = route_of(endpoint(("a", 9, 0), ("b", 1, 2)), {}, {"a": SERVER, "b": SERVER})
    assert {found.choose(chance / 10).variant for chance in range(10)} == {"b"}
    assert found.named("a") is None


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
