"""What the templates say of each hosting mode is what the APIs behind CloudFormation take (botocore is the oracle)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

SLOTS_AND_ALL_BESIDE_THEM = """
instance_type = "ml.g4dn.xlarge"
volume_gb = 200
[hosting.scaling]
target_concurrency = 4
target_invocations = 600
target_gpu_percent = 70
custom = { namespace = "Feeds", name = "QueueDepth", target = 20 }
[hosting.scaling.step]
metric = "concurrency"
threshold = 10
period_s = 10
steps = [{ lower = 0, upper = 5, add = 1 }, { lower = 5, add = 2 }]
[[hosting.scaling.schedules]]
name = "evening"
start = "cron(0 17 * * ? *)"
end = "cron(0 23 * * ? *)"
min_count = 2
[hosting.batch]
max_count = 2
[hosting.batch.scaling]
target_backlog = 7
[hosting.batch.asynchronous]
notify = true
"""
FLEET = """
mode = "components"
instance_type = "ml.g5.12xlarge"
min_count = 0
[hosting.component]
accelerators = 2
memory_mib = 65536
cpus = 12.5
min_copies = 0
[hosting.scaling]
target_concurrency = 16
target_gpu_percent = 80
[hosting.deployment]
strategy = "rolling"
"""
ROLLING_QUEUE = """
mode = "async"
instance_type = "ml.c6i.large"
[hosting.scaling]
target_backlog = 4
[hosting.deployment]
strategy = "rolling"
step_percent = 30
"""
MODES = {
    "realtime": {
        "hosting": SLOTS_AND_ALL_BESIDE_THEM,
        "entry": '[models.sample_scorer.batch]\n[models.sample_scorer.shadow]\nversion = "2.0.0"',
    },
    "async": {"hosting": ROLLING_QUEUE, "runtime": '[runtime]\nkind = "triton"\ndevice = "cpu"'},
    "components": {"hosting": FLEET, "runtime": '[runtime]\nkind = "vllm"\nlayout = "prefix"\ntensor_parallel = 2'},
}
# CloudFormation type: service, operation, what of it CloudFormation keeps for itself or makes up
CALLS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "AWS::SageMaker::Model": ("sagemaker", "CreateModel", {"ModelName": "made-up"}),
    "AWS::SageMaker::EndpointConfig": ("sagemaker", "CreateEndpointConfig", {"EndpointConfigName": "made-up"}),
    "AWS::SageMaker::Endpoint": ("sagemaker", "UpdateEndpoint", {}),
    "AWS::SageMaker::InferenceComponent": ("sagemaker", "CreateInferenceComponent", {}),
    "AWS::ApplicationAutoScaling::ScalableTarget": ("application-autoscaling", "RegisterScalableTarget", {}),
    "AWS::ApplicationAutoScaling::ScalingPolicy": ("application-autoscaling", "PutScalingPolicy", {}),
}
# Sent by CloudFormation to another operation than the one that creates the resource.
ELSEWHERE = {
    "AWS::SageMaker::InferenceComponent": {"DeploymentConfig"},
    "AWS::ApplicationAutoScaling::ScalableTarget": {"ScheduledActions"},
    "AWS::ApplicationAutoScaling::ScalingPolicy": {"ScalingTargetId"},
}


def resolved(value: Any) -> Any:
    """Put words where a deploy puts values: what is joined keeps its own words."""
    if isinstance(value, dict):
        if set(value) == {"Fn::Join"}:
            return "".join(map(str, (resolved(part) for part in value["Fn::Join"][1])))
        if len(value) == 1 and (next(iter(value)) == "Ref" or next(iter(value)).startswith("Fn::")):
            return "arn:aws:iam::111122223333:role/made-up"
        return {key: resolved(inner) for key, inner in value.items()}
    return [resolved(inner) for inner in value] if isinstance(value, list) else value


def refused(service: str, operation: str, parameters: Mapping[str, Any]) -> Iterator[str]:
    """Give what the API would not take: unknown or missing parameters, wrong types, values out of range."""
    model = botocore.session.get_session().get_service_model(service).operation_model(operation)
    report = ParamValidator().validate(parameters, model.input_shape)
    if report.has_errors():
        yield report.generate_report()


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("kind", sorted(CALLS))
def test_the_api_takes_what_a_template_says(host: Any, mode: str, kind: str) -> None:
    service, operation, made_up = CALLS[kind]
    found = host(**MODES[mode]).all(kind, "sample-scorer")
    assert bool(found) == (kind != "AWS::SageMaker::InferenceComponent" or mode == "components")
    for one in found:
        said = {key: value for key, value in resolved(one.props).items() if key not in ELSEWHERE.get(kind, ())}
        target = {"ServiceNamespace": "sagemaker", "ResourceId": "x", "ScalableDimension": "x"}
        policy = target if operation == "PutScalingPolicy" else {}
        assert list(refused(service, operation, {**made_up, **policy, **said})) == []


def test_a_components_rolling_update_is_what_its_update_takes(host: Any) -> None:
    for one in host(**MODES["components"]).all("AWS::SageMaker::InferenceComponent", "sample-scorer"):
        said = resolved(
            {key: one.props[key] for key in ("InferenceComponentName", "Specification", "DeploymentConfig")}
        )
        assert list(refused("sagemaker", "UpdateInferenceComponent", said)) == []


def test_a_floor_is_what_scheduled_scaling_takes(host: Any) -> None:
    for target in host(**MODES["realtime"]).all("AWS::ApplicationAutoScaling::ScalableTarget", "sample-scorer"):
        for action in target.props.get("ScheduledActions", []):
            said = {key: target.props[key] for key in ("ServiceNamespace", "ScalableDimension")}
            parameters = {**said, "ResourceId": "x", **action}
            assert list(refused("application-autoscaling", "PutScheduledAction", parameters)) == []


def test_the_oracle_refuses_what_it_should(host: Any) -> None:
    (found, *_) = host(**MODES["async"]).all("AWS::SageMaker::EndpointConfig", "sample-scorer")
    said = {**resolved(found.props), "EndpointConfigName": "x", "MetricConfig": {}}
    (told,) = refused("sagemaker", "CreateEndpointConfig", said)
    assert "MetricConfig" in told
