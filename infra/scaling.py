"""Scaling of one slot on the requests it holds at once, measured every ten seconds."""

from __future__ import annotations

from aws_cdk import aws_applicationautoscaling as autoscaling
from constructs import Construct

from infra.endpoint import Endpoint, Placement
from serving.spec import ModelSpec, Slot

_NAMESPACE = "sagemaker"
_DIMENSION = "sagemaker:variant:DesiredInstanceCount"
_METRIC = "SageMakerVariantConcurrentRequestsPerModelHighResolution"


class SlotScaling(Construct):
    """A scalable target and its tracking policy; the target outlives configs, because slots keep their names."""

    def __init__(
        self, scope: Construct, id_: str, *, endpoint: Endpoint, model: ModelSpec, placement: Placement, slot: Slot
    ) -> None:
        super().__init__(scope, id_)
        target = autoscaling.CfnScalableTarget(
            self,
            "Target",
            service_namespace=_NAMESPACE,
            scalable_dimension=_DIMENSION,
            resource_id=f"endpoint/{endpoint.cfn.attr_endpoint_name}/variant/{slot}",
            min_capacity=placement.min_count,
            max_capacity=placement.max_count,
        )
        scaling = model.hosting.scaling
        autoscaling.CfnScalingPolicy(
            self,
            "Policy",
            policy_name=f"{endpoint.name}-{slot}-concurrency",
            policy_type="TargetTrackingScaling",
            scaling_target_id=target.ref,
            target_tracking_scaling_policy_configuration=(
                autoscaling.CfnScalingPolicy.TargetTrackingScalingPolicyConfigurationProperty(
                    predefined_metric_specification=(
                        autoscaling.CfnScalingPolicy.PredefinedMetricSpecificationProperty(
                            predefined_metric_type=_METRIC
                        )
                    ),
                    target_value=scaling.target_concurrency if scaling.target_concurrency is not None else 0,
                    scale_in_cooldown=scaling.scale_in_cooldown_s,
                    scale_out_cooldown=scaling.scale_out_cooldown_s,
                )
            ),
        )
