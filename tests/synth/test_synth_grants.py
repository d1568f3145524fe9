"""Who may call an endpoint is a method of it, and names that endpoint and its components only (least privilege)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

SLUG = "sample-scorer"
NAME = "streamhub-lab-sample-scorer"
PREFIX = "arn:aws:sagemaker:eu-west-1:111122223333"
BUCKET = "arn:aws:s3:::streamhub-lab-telemetry-111122223333"
QUEUE = """
mode = "async"
instance_type = "ml.g4dn.xlarge"
[hosting.scaling]
target_backlog = 5
"""
FLEET = """
mode = "components"
instance_type = "ml.g5.12xlarge"
[hosting.component]
accelerators = 2
memory_mib = 65536
[hosting.scaling]
target_concurrency = 16
[hosting.deployment]
strategy = "rolling"
"""
SLOTS = """
instance_type = "ml.g4dn.xlarge"
[hosting.scaling]
target_concurrency = 4
"""
SHADOW = '[models.sample_scorer.shadow]\nversion = "2.0.0"'
VLLM = '[runtime]\nkind = "vllm"\ntensor_parallel = 2'
Granted = Mapping[str, set[str]]


@pytest.fixture(name="granted")
def granted_fixture(host: Any, context: Mapping[str, Any]) -> Callable[..., Granted]:
    """Give a function: what a caller may do after one grant of the last endpoint of a model's stack, by action."""
    from stacks.hosting import Ground  # noqa: PLC0415 - starts node, which only these tests need
    from stacks.model import ModelStack  # noqa: PLC0415 - as above
    from stacks.network import NetworkStack  # noqa: PLC0415 - as above
    from stacks.registry import RegistryStack  # noqa: PLC0415 - as above

    def granted(grant: str, hosting: str, **lines: str) -> Granted:
        project = host(hosting, **lines).project
        (model,), stage = project.models.values(), project.stages["lab"]
        app = App(context=dict(context), builtin_cloud_formation_validation=False)
        store = RegistryStack(app, stage=stage, answer_prefixes=())
        network = NetworkStack(app, stage=stage, key=None).network
        ground = Ground(stage=stage, network=network, registry=store.registry, telemetry=store.telemetry, key=None)
        endpoint = ModelStack(app, model=model, locks=project.locks[model.name], ground=ground).hosted[-1]
        callers = Stack(app, "callers", env=Environment(account=stage.account, region=stage.region))
        caller = iam.Role(callers, "Caller", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        getattr(endpoint, grant)(caller)
        (policy,) = Template.from_stack(callers).find_resources("AWS::IAM::Policy").values()
        return by_action(policy["Properties"]["PolicyDocument"]["Statement"])

    return granted


def by_action(statements: list[dict[str, Any]]) -> Granted:
    found: dict[str, set[str]] = {}
    for statement in statements:
        actions, resources = (
            value if isinstance(value, list) else [value] for value in (statement["Action"], statement["Resource"])
        )
        for action in actions:
            found.setdefault(action, set()).update(
                resource if isinstance(resource, str) else json.dumps(resource) for resource in resources
            )
    return found


def test_an_async_endpoint_is_called_by_who_may_write_requests_and_read_what_came_of_them(
    granted: Callable[..., Granted],
) -> None:
    found = granted("grant_invoke_async", QUEUE)
    assert found["sagemaker:InvokeEndpointAsync"] == {f"{PREFIX}:endpoint/{NAME}"}
    assert found["s3:PutObject"] == {f"{BUCKET}/async/{NAME}/input/*"}
    assert found["s3:GetObject"] == {f"{BUCKET}/async/{NAME}/{place}/*" for place in ("output", "failure")}
    assert "sagemaker:InvokeEndpoint" not in found


def test_components_are_called_by_their_names_on_their_endpoint(granted: Callable[..., Granted]) -> None:
    found = granted("grant_invoke", FLEET, runtime=VLLM)
    names = {f"{PREFIX}:endpoint/{NAME}", *(f"{PREFIX}:inference-component/{NAME}-{slot}" for slot in "ab")}
    assert found == {"sagemaker:InvokeEndpoint": names, "sagemaker:InvokeEndpointWithResponseStream": names}


def test_a_shadow_endpoint_is_called_apart_from_the_users_endpoint(granted: Callable[..., Granted]) -> None:
    found = granted("grant_invoke", SLOTS, entry=SHADOW)
    assert found == {"sagemaker:InvokeEndpoint": {f"{PREFIX}:endpoint/{NAME}-shadow"}}


@pytest.mark.parametrize(
    ("grant", "actions"),
    [
        ("grant_invoke", {"sagemaker:InvokeEndpoint"}),
        ("grant_shift_traffic", {"sagemaker:DescribeEndpoint", "sagemaker:UpdateEndpointWeightsAndCapacities"}),
    ],
)
def test_slots_are_called_by_some_and_shifted_by_others(
    granted: Callable[..., Granted], grant: str, actions: set[str]
) -> None:
    assert granted(grant, SLOTS) == {action: {f"{PREFIX}:endpoint/{NAME}"} for action in actions}
