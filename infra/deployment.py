"""How an update reaches the machines: the policy of an endpoint and that of an inference component.

Which strategy a mode may have is checked before synth (`serving.spec.rules`): rolling is for one variant only, and
components roll (SageMaker guide, *deployment-guardrails-exclusions*, *inference-component-rolling-updates*).
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sagemaker as sagemaker

from serving.spec import DeploymentSpec, Strategy

_CAPACITY = "CAPACITY_PERCENT"
_EndpointSize = sagemaker.CfnEndpoint.CapacitySizeProperty
_ComponentSize = sagemaker.CfnInferenceComponent.InferenceComponentCapacitySizeProperty


def endpoint_update(
    spec: DeploymentSpec, *, guards: Sequence[cloudwatch.Alarm]
) -> sagemaker.CfnEndpoint.DeploymentConfigProperty:
    """Give the policy of UpdateEndpoint; each of the guards rolls it back while it runs."""
    rolls = spec.strategy is Strategy.ROLLING
    return sagemaker.CfnEndpoint.DeploymentConfigProperty(
        blue_green_update_policy=None if rolls else _blue_green(spec),
        rolling_update_policy=_rolling(spec) if rolls else None,
        auto_rollback_configuration=sagemaker.CfnEndpoint.AutoRollbackConfigProperty(
            alarms=[sagemaker.CfnEndpoint.AlarmProperty(alarm_name=guard.alarm_name) for guard in guards]
        ),
    )


def component_update(
    spec: DeploymentSpec, *, guards: Sequence[cloudwatch.Alarm]
) -> sagemaker.CfnInferenceComponent.InferenceComponentDeploymentConfigProperty:
    """Give the policy of UpdateInferenceComponent: batches of `step_percent` of the copies, each watched."""
    return sagemaker.CfnInferenceComponent.InferenceComponentDeploymentConfigProperty(
        rolling_update_policy=sagemaker.CfnInferenceComponent.InferenceComponentRollingUpdatePolicyProperty(
            maximum_batch_size=_ComponentSize(type=_CAPACITY, value=spec.step_percent),
            wait_interval_in_seconds=spec.wait_s,
            maximum_execution_timeout_in_seconds=spec.max_duration_s,
        ),
        auto_rollback_configuration=sagemaker.CfnInferenceComponent.AutoRollbackConfigurationProperty(
            alarms=[sagemaker.CfnInferenceComponent.AlarmProperty(alarm_name=guard.alarm_name) for guard in guards]
        ),
    )


def _blue_green(spec: DeploymentSpec) -> sagemaker.CfnEndpoint.BlueGreenUpdatePolicyProperty:
    step = _EndpointSize(type=_CAPACITY, value=spec.step_percent)
    return sagemaker.CfnEndpoint.BlueGreenUpdatePolicyProperty(
        traffic_routing_configuration=sagemaker.CfnEndpoint.TrafficRoutingConfigProperty(
            type=spec.strategy.value.replace("-", "_").upper(),
            canary_size=step if spec.strategy is Strategy.CANARY else None,
            linear_step_size=step if spec.strategy is Strategy.LINEAR else None,
            wait_interval_in_seconds=spec.wait_s,
        ),
        termination_wait_in_seconds=spec.termination_wait_s,
        maximum_execution_timeout_in_seconds=spec.max_duration_s,
    )


def _rolling(spec: DeploymentSpec) -> sagemaker.CfnEndpoint.RollingUpdatePolicyProperty:
    return sagemaker.CfnEndpoint.RollingUpdatePolicyProperty(
        maximum_batch_size=_EndpointSize(type=_CAPACITY, value=spec.step_percent),
        wait_interval_in_seconds=spec.wait_s,
        maximum_execution_timeout_in_seconds=spec.max_duration_s,
    )
