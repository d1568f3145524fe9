"""What the release and drift functions may touch, model by model."""

from __future__ import annotations

from aws_cdk import aws_iam as iam

from infra.buckets import CAPTURE_PREFIX, RegistryBucket, TelemetryBucket
from infra.endpoint import Endpoint
from infra.function import ServiceFunction
from infra.metrics import OURS
from serving.spec import ModelSpec


def allow_release(
    function: ServiceFunction,
    *,
    model: ModelSpec,
    endpoint: Endpoint,
    registry: RegistryBucket,
    telemetry: TelemetryBucket,
) -> None:
    """Let it move traffic and capacity, move the alias and leave an audit record."""
    role = function.role
    endpoint.grant_shift_traffic(role)
    registry.grant_read_model(role, model)
    registry.grant_move_aliases(role, model)
    telemetry.grant_read_under(role, f"audit/{model.name}")
    telemetry.grant_write_under(role, f"audit/{model.name}")
    _allow_scaling(function)


def _allow_scaling(function: ServiceFunction) -> None:
    """Let it raise a variant's minimum before traffic moves; the finest form is the service's namespace."""
    function.role.add_to_policy(
        iam.PolicyStatement(actions=["application-autoscaling:DescribeScalableTargets"], resources=["*"])
    )
    function.role.add_to_policy(
        iam.PolicyStatement(
            actions=["application-autoscaling:RegisterScalableTarget"],
            resources=["*"],
            conditions={"StringEquals": {"application-autoscaling:service-namespace": "sagemaker"}},
        )
    )


def allow_drift(
    function: ServiceFunction,
    *,
    model: ModelSpec,
    endpoint: Endpoint,
    registry: RegistryBucket,
    telemetry: TelemetryBucket,
) -> None:
    """Let it read baseline and captures, write its reports and publish our metrics."""
    role = function.role
    registry.grant_read_model(role, model)
    telemetry.grant_read_under(role, f"{CAPTURE_PREFIX}/{endpoint.name}")
    telemetry.grant_read_under(role, f"drift/{model.name}")
    telemetry.grant_write_under(role, f"drift/{model.name}")
    # PutMetricData has no resource: the namespace is its finest form
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": OURS}},
        )
    )
