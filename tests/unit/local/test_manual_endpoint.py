"""The endpoint of a rehearsal answers as boto3 does and moves by the control plane's rules, when its clock is moved."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest
from botocore.exceptions import ClientError
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from local.manual_endpoint import PROVISIONING_S, ManualEndpoint, Surroundings
from local.sagemaker.plan import Plan, Step
from serving.aws.endpoints import SageMakerEndpointControl
from serving.errors import EndpointError

NAME = "streamhub-dev-ranker"
CANARY = Plan(steps=(Step(share=0.1, wait_s=600.0), Step(share=1.0, wait_s=0.0)), alarms=("errors",))
SCALING_S = 180.0
MODEL = ServiceModel(Loader().load_service_model("sagemaker", "service-2"), service_name="sagemaker")


class World:
    """An endpoint with two slots, driven by the product's adapter."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.instances, self.errors = True, False
        self.endpoint = ManualEndpoint.serving(NAME, {"a": (1.0, 2), "b": (0.0, 1)}, clock=lambda: self.now)
        self.endpoint.meets = Surroundings(capacity=lambda: self.instances, alarmed=lambda _names: self.errors)
        client = cast("Any", self.endpoint)
        self.control = SageMakerEndpointControl(client, client)

    def later(self, seconds: float) -> str:
        self.now += seconds
        self.endpoint.tick()
        return self.control.describe(NAME).status

    def weights(self) -> dict[str, float]:
        return {variant.slot: variant.weight for variant in self.control.describe(NAME).variants}


@pytest.fixture(name="world")
def world_fixture() -> World:
    return World()


def refuse_other_shapes(answer: dict[str, Any]) -> None:
    shape = MODEL.operation_model("DescribeEndpoint").output_shape
    report = ParamValidator().validate(answer, shape)
    assert not report.has_errors(), report.generate_report()


def test_weights_are_in_force_when_the_update_is_over_and_no_sooner(world: World) -> None:
    world.control.set_weights(NAME, {"a": 0.9, "b": 0.1})
    assert (world.later(SCALING_S - 1), world.weights()) == ("Updating", {"a": 1.0, "b": 0.0})
    assert (world.later(1), world.weights()) == ("InService", {"a": 0.9, "b": 0.1})


def test_a_second_change_while_it_is_updating_is_refused_as_the_adapter_expects(world: World) -> None:
    world.control.set_weights(NAME, {"a": 0.9, "b": 0.1})
    with pytest.raises(EndpointError, match="Cannot update in-progress endpoint"):
        world.control.set_weights(NAME, {"a": 0.5, "b": 0.5})
    with pytest.raises(ClientError) as refused:
        world.endpoint.update_endpoint_weights_and_capacities(EndpointName=NAME, DesiredWeightsAndCapacities=[])
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_instances_that_are_not_to_be_had_roll_back_and_are_had_later(world: World) -> None:
    world.instances = False
    assert not world.control.ensure_instances(NAME, "b", 2)
    assert world.control.describe(NAME).status == "RollingBack"
    assert world.later(SCALING_S) == "InService"
    world.instances = True
    assert not world.control.ensure_instances(NAME, "b", 2)
    assert world.later(SCALING_S) == "InService"
    assert world.control.ensure_instances(NAME, "b", 2)


def test_a_deployment_bakes_and_keeps_weights_and_counts(world: World) -> None:
    world.endpoint.deploy("next", CANARY)
    assert world.later(PROVISIONING_S - 1) == "Updating"
    assert world.later(1) == "Updating", "a tenth of the traffic bakes"
    refuse_other_shapes(world.endpoint.describe_endpoint())
    assert world.later(600) == "InService"
    assert (world.endpoint.endpoint.config, world.weights()) == ("next", {"a": 1.0, "b": 0.0})


def test_an_alarm_takes_a_deployment_back_without_a_word(world: World) -> None:
    world.endpoint.deploy("next", CANARY)
    world.later(PROVISIONING_S)
    world.errors = True
    assert world.later(300) == "InService"
    assert world.endpoint.endpoint.config == f"{NAME}-1"
    assert "FailureReason" not in world.endpoint.describe_endpoint()


@given(
    moves=st.lists(
        st.one_of(
            st.tuples(st.just("later"), st.floats(1, 2_000)),
            st.tuples(st.just("weights"), st.floats(0, 1)),
            st.tuples(st.just("deploy"), st.just(0.0)),
            st.tuples(st.just("errors"), st.sampled_from([0.0, 1.0])),
            st.tuples(st.just("capacity"), st.sampled_from([0.0, 1.0])),
        ),
        max_size=20,
    )
)
def test_whatever_happens_it_answers_in_sagemakers_shape_settles_and_is_the_same_after_a_restart(
    moves: list[tuple[str, float]],
) -> None:
    world = World()
    for kind, value in moves:
        if kind == "later":
            world.later(value)
        elif kind == "errors":
            world.errors = bool(value)
        elif kind == "capacity":
            world.instances = bool(value)
        elif world.control.describe(NAME).status == "InService":
            if kind == "weights":
                world.control.set_weights(NAME, {"a": 1 - value, "b": value})
            else:
                world.endpoint.deploy(f"next-{world.endpoint.endpoint.fleets_made}", CANARY)
        refuse_other_shapes(world.endpoint.describe_endpoint())
        again = ManualEndpoint.of_document(orjson.loads(orjson.dumps(world.endpoint.document())), clock=lambda: 0.0)
        assert again.endpoint == world.endpoint.endpoint
    for _ in range(3):
        settled = world.later(PROVISIONING_S + 600)
    assert settled == "InService"
