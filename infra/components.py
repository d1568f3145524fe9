"""An endpoint for a large model: one fleet, inference components a and b on it, each copy with its own accelerators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.deployment import component_update
from infra.endpoint_config import EndpointConfig, Variant, least_outstanding
from infra.hosted_endpoint import HostedEndpoint
from infra.metrics import component_dimensions, sagemaker_metric
from infra.model import ModelVersion
from infra.scaling import Scaling
from serving.spec import ComponentSpec, DeploymentSpec, HostingSpec, Slot

VARIANT_NAME = "fleet"
"""The only variant: machines without a model of their own."""

_Component = sagemaker.CfnInferenceComponent


def fleet(hosting: HostingSpec, *, ami: str | None) -> Variant:
    """Give the machines: SageMaker adds and removes them as copies need room (managed instance scaling)."""
    return Variant(
        variant_name=VARIANT_NAME,
        instance_type=hosting.instance_type,
        # at least 1 at creation (API reference, *ProductionVariant*), also where the minimum is 0
        initial_instance_count=max(1, hosting.min_count),
        container_startup_health_check_timeout_in_seconds=hosting.startup_timeout_s,
        model_data_download_timeout_in_seconds=hosting.download_timeout_s,
        volume_size_in_gb=hosting.volume_gb,
        inference_ami_version=ami,
        managed_instance_scaling=sagemaker.CfnEndpointConfig.ManagedInstanceScalingProperty(
            status="ENABLED", min_instance_count=hosting.min_count, max_instance_count=hosting.max_count
        ),
        routing_config=least_outstanding(),
    )


class ComponentEndpoint(HostedEndpoint):
    """The fleet's endpoint, called with InferenceComponentName; weights do not apply to components.

    It carries no deployment policy of its own: versions change in components, whose updates roll.
    """

    def __init__(
        self, scope: Construct, id_: str, *, name: str, components: Mapping[Slot, str], config: EndpointConfig
    ) -> None:
        self.components = components
        super().__init__(
            scope,
            id_,
            name=name,
            config=config,
            parts={slot: component_dimensions(component) for slot, component in components.items()},
            deployment=None,
        )

    def grant_invoke(self, grantee: iam.IGrantable) -> None:
        """Let it call either component, also with the answer as a stream."""
        self._grant(
            grantee,
            "sagemaker:InvokeEndpoint",
            "sagemaker:InvokeEndpointWithResponseStream",
            components=tuple(self.components.values()),
        )


class Component(Construct):
    """One version in its slot: what a copy takes of a machine, and how an update of it rolls.

    CopyCount is the number at creation, at least 1: a component cannot be created with none (observed by users,
    stdapi-ai/stdapi.ai#43). CloudFormation sends it again when the component itself changes (docs/hosting.md); scaling
    then finds its own number within the bounds.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        slot: Slot,
        endpoint: ComponentEndpoint,
        version: ModelVersion,
        hosting: HostingSpec,
        spec: ComponentSpec,
        deployment: DeploymentSpec,
        guards: Sequence[cloudwatch.Alarm],
    ) -> None:
        super().__init__(scope, id_)
        self.slot = slot
        self.name = endpoint.components[slot]
        self.cfn = _Component(
            self,
            "Component",
            inference_component_name=self.name,
            endpoint_name=endpoint.cfn.attr_endpoint_name,
            variant_name=VARIANT_NAME,
            specification=_Component.InferenceComponentSpecificationProperty(
                model_name=version.model_name,
                compute_resource_requirements=_Component.InferenceComponentComputeResourceRequirementsProperty(
                    number_of_accelerator_devices_required=spec.accelerators,
                    number_of_cpu_cores_required=spec.cpus,
                    min_memory_required_in_mb=spec.memory_mib,
                ),
                startup_parameters=_Component.InferenceComponentStartupParametersProperty(
                    container_startup_health_check_timeout_in_seconds=hosting.startup_timeout_s,
                    model_data_download_timeout_in_seconds=hosting.download_timeout_s,
                ),
            ),
            runtime_config=_Component.InferenceComponentRuntimeConfigProperty(copy_count=max(1, spec.min_copies)),
            deployment_config=component_update(deployment, guards=guards),
        )


def wake_from_requests(scaling: Scaling, component: str) -> None:
    """Start the first copy for the first request, which fails, as those of the next minutes do."""
    scaling.wake_on(
        sagemaker_metric("NoCapacityInvocationFailures", dimensions=component_dimensions(component), statistic="Sum"),
        periods=1,
        description=f"{component}: requests fail because there is no copy",
    )
