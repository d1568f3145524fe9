"""The endpoint config: what runs on which machines, and how it is fetched, started, routed, captured and measured.

It is never named: every change makes a new one, and CloudFormation cannot replace what has a name.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.buckets import CAPTURE_PREFIX, TelemetryBucket
from infra.network import Network
from serving.spec import HostingSpec
from serving.spec.instances import has_local_nvme

Variant = sagemaker.CfnEndpointConfig.ProductionVariantProperty
Capture = sagemaker.CfnEndpointConfig.DataCaptureConfigProperty
AsyncConfig = sagemaker.CfnEndpointConfig.AsyncInferenceConfigProperty

_METRIC_PERIOD_S = 60


class EndpointConfig(Construct):
    """A config of any mode.

    `role` and `network` are for inference components only: models of their own variants carry both themselves.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        variants: Sequence[Variant],
        key: kms.IKey | None,
        shadows: Sequence[Variant] = (),
        capture: Capture | None = None,
        asynchronous: AsyncConfig | None = None,
        role: iam.IRole | None = None,
        network: Network | None = None,
    ) -> None:
        super().__init__(scope, id_)
        types = [str(variant.instance_type) for variant in (*variants, *shadows)]
        volume_key = None if any(map(has_local_nvme, types)) else key
        self.cfn = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=list(variants),
            shadow_production_variants=list(shadows) or None,
            data_capture_config=capture,
            async_inference_config=asynchronous,
            kms_key_id=volume_key.key_arn if volume_key is not None else None,
            execution_role_arn=role.role_arn if role is not None else None,
            enable_network_isolation=True if network is not None else None,
            vpc_config=_vpc(network) if network is not None else None,
            metrics_config=sagemaker.CfnEndpointConfig.MetricsConfigProperty(
                enable_enhanced_metrics=True,
                # a Prometheus series for each GPU and host, billed as custom metrics: on by default, so said here
                enable_detailed_observability=False,
                metric_publish_frequency_in_seconds=_METRIC_PERIOD_S,
            ),
        )
        if role is not None:
            # CreateEndpointConfig tries the role's permissions, which are a policy of its own
            self.cfn.node.add_dependency(role)
        self.config_name = self.cfn.attr_endpoint_config_name


def model_variant(
    name: str,
    *,
    model_name: str,
    hosting: HostingSpec,
    ami: str | None,
    count: int | None = None,
    weight: float = 1,
    instance_type: str | None = None,
) -> Variant:
    """Give a variant that holds one model; `count` and `instance_type` default to the spec's.

    InitialInstanceCount is at least 1 (API reference, *ProductionVariant*), also where the minimum is 0.
    """
    return Variant(
        variant_name=name,
        model_name=model_name,
        instance_type=hosting.instance_type if instance_type is None else instance_type,
        initial_instance_count=max(1, hosting.min_count if count is None else count),
        initial_variant_weight=weight,
        container_startup_health_check_timeout_in_seconds=hosting.startup_timeout_s,
        model_data_download_timeout_in_seconds=hosting.download_timeout_s,
        volume_size_in_gb=hosting.volume_gb,
        inference_ami_version=ami,
        routing_config=least_outstanding(),
    )


def least_outstanding() -> sagemaker.CfnEndpointConfig.RoutingConfigProperty:
    """Send each request to the instance or copy with the fewest under way; the default is by chance."""
    return sagemaker.CfnEndpointConfig.RoutingConfigProperty(routing_strategy="LEAST_OUTSTANDING_REQUESTS")


def capture(percent: int, *, telemetry: TelemetryBucket, key: kms.IKey | None) -> Capture | None:
    """Give the capture of requests and answers of all variants, or None for none of them."""
    if percent == 0:
        return None
    return Capture(
        enable_capture=True,
        initial_sampling_percentage=percent,
        destination_s3_uri=telemetry.bucket.s3_url_for_object(CAPTURE_PREFIX),
        capture_options=[
            sagemaker.CfnEndpointConfig.CaptureOptionProperty(capture_mode="Input"),
            sagemaker.CfnEndpointConfig.CaptureOptionProperty(capture_mode="Output"),
        ],
        # other types, such as Triton's binary tensors, are captured in base64
        capture_content_type_header=sagemaker.CfnEndpointConfig.CaptureContentTypeHeaderProperty(
            json_content_types=["application/json"]
        ),
        kms_key_id=key.key_arn if key is not None else None,
    )


def _vpc(network: Network) -> sagemaker.CfnEndpointConfig.VpcConfigProperty:
    return sagemaker.CfnEndpointConfig.VpcConfigProperty(
        security_group_ids=[network.models.security_group_id], subnets=network.subnet_ids
    )
