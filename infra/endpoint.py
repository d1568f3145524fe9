"""A real-time endpoint of two slots, a and b, whose names, weights and counts survive every deploy (ADR 0001, 0002)."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.buckets import CAPTURE_PREFIX, TelemetryBucket
from infra.images import ContainerImage
from infra.instances import has_local_nvme
from infra.metrics import variant_metric
from infra.model import ModelVersion
from serving.spec import SLOTS, ModelSpec, Slot, StageModel, StageSpec, endpoint_name

# Once, at creation: afterwards weights belong to the release record. 0 is meant: slot b gets no traffic yet.
_FIRST_WEIGHTS: Mapping[Slot, float] = {"a": 1, "b": 0}
_CANARY_PERCENT = 25
_CANARY_WAIT_S = {"retain": 600, "destroy": 60}
_TERMINATION_WAIT_S = {"retain": 300, "destroy": 0}
_MAX_DEPLOYMENT_S = 14_400
_METRIC_PERIOD_S = 60


class Placement:
    """Where a model runs in a stage: the spec's values unless the stage file has its own."""

    def __init__(self, *, model: ModelSpec, entry: StageModel) -> None:
        hosting = model.hosting
        self.instance_type = entry.instance_type if entry.instance_type is not None else hosting.instance_type
        self.min_count = entry.min_count if entry.min_count is not None else hosting.min_count
        self.max_count = entry.max_count if entry.max_count is not None else hosting.max_count
        self.capture_percent = (
            entry.capture_percent if entry.capture_percent is not None else model.drift.capture_percent
        )


class SlotConfig(Construct):
    """The endpoint config: what each slot holds and how it is fetched, started, routed, captured and measured."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        model: ModelSpec,
        placement: Placement,
        versions: Mapping[Slot, ModelVersion],
        image: ContainerImage,
        telemetry: TelemetryBucket,
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, id_)
        volume_key = key if key is not None and not has_local_nvme(placement.instance_type) else None
        self.cfn = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=[
                _variant(slot, model=model, placement=placement, version=versions[slot], image=image) for slot in SLOTS
            ],
            data_capture_config=_capture(placement.capture_percent, telemetry=telemetry, key=key),
            kms_key_id=volume_key.key_arn if volume_key is not None else None,
            metrics_config=sagemaker.CfnEndpointConfig.MetricsConfigProperty(
                enable_enhanced_metrics=True,
                # a Prometheus series for each GPU and host, billed as custom metrics: on by default, so said here
                enable_detailed_observability=False,
                metric_publish_frequency_in_seconds=_METRIC_PERIOD_S,
            ),
        )
        self.config_name = self.cfn.attr_endpoint_config_name


class Endpoint(Construct):
    """The endpoint `streamhub-<stage>-<slug>`: its name is for ever, its config a new one at each change."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: StageSpec,
        model: ModelSpec,
        config: SlotConfig,
        guards: tuple[cloudwatch.Alarm, ...],
    ) -> None:
        super().__init__(scope, id_)
        self.name = endpoint_name(stage.name, model.slug)
        self.cfn = sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=self.name,
            endpoint_config_name=config.config_name,
            retain_all_variant_properties=True,
            deployment_config=_deployment(stage, guards=guards),
        )

    def grant_invoke(self, grantee: iam.IGrantable) -> None:
        """Let it call the endpoint, any variant."""
        self._grant(grantee, "sagemaker:InvokeEndpoint")

    def grant_shift_traffic(self, grantee: iam.IGrantable) -> None:
        """Let it read the endpoint and set weights and counts; what a slot holds it cannot change."""
        self._grant(grantee, "sagemaker:DescribeEndpoint", "sagemaker:UpdateEndpointWeightsAndCapacities")

    def metric_model_latency(self, slot: Slot, *, statistic: str = "p99") -> cloudwatch.Metric:
        """Time in the container as SageMaker sees it, microseconds."""
        return variant_metric(
            "ModelLatency", endpoint=self.name, slot=slot, statistic=statistic, label=f"{slot} {statistic}"
        )

    def metric_error_rate(self, slot: Slot) -> cloudwatch.Metric:
        """Share of invocations that ended in 5xx: each request counts 1 or 0, so the average is the rate."""
        return variant_metric("Invocation5XXErrors", endpoint=self.name, slot=slot, statistic="Average", label=slot)

    def metric_invocations(self, slot: Slot) -> cloudwatch.Metric:
        """Requests a minute."""
        return variant_metric("Invocations", endpoint=self.name, slot=slot, statistic="Sum", label=slot)

    def _grant(self, grantee: iam.IGrantable, *actions: str) -> None:
        # by its name, which never changes: a reference would tie the callers' stacks to this one for ever
        stack = Stack.of(self)
        arn = f"arn:aws:sagemaker:{stack.region}:{stack.account}:endpoint/{self.name}"
        iam.Grant.add_to_principal(grantee=grantee, actions=list(actions), resource_arns=[arn])


def _variant(
    slot: Slot, *, model: ModelSpec, placement: Placement, version: ModelVersion, image: ContainerImage
) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
    return sagemaker.CfnEndpointConfig.ProductionVariantProperty(
        variant_name=slot,
        model_name=version.model_name,
        instance_type=placement.instance_type,
        initial_instance_count=placement.min_count,
        initial_variant_weight=_FIRST_WEIGHTS[slot],
        container_startup_health_check_timeout_in_seconds=model.hosting.startup_timeout_s,
        model_data_download_timeout_in_seconds=model.hosting.download_timeout_s,
        inference_ami_version=image.ami,
        routing_config=sagemaker.CfnEndpointConfig.RoutingConfigProperty(routing_strategy="LEAST_OUTSTANDING_REQUESTS"),
    )


def _capture(
    percent: int, *, telemetry: TelemetryBucket, key: kms.IKey | None
) -> sagemaker.CfnEndpointConfig.DataCaptureConfigProperty | None:
    if percent == 0:
        return None
    return sagemaker.CfnEndpointConfig.DataCaptureConfigProperty(
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


def _deployment(
    stage: StageSpec, *, guards: tuple[cloudwatch.Alarm, ...]
) -> sagemaker.CfnEndpoint.DeploymentConfigProperty:
    """Blue/green with a canary; rolling is not for two variants (guide, *deployment-guardrails-exclusions*)."""
    return sagemaker.CfnEndpoint.DeploymentConfigProperty(
        blue_green_update_policy=sagemaker.CfnEndpoint.BlueGreenUpdatePolicyProperty(
            traffic_routing_configuration=sagemaker.CfnEndpoint.TrafficRoutingConfigProperty(
                type="CANARY",
                canary_size=sagemaker.CfnEndpoint.CapacitySizeProperty(type="CAPACITY_PERCENT", value=_CANARY_PERCENT),
                wait_interval_in_seconds=_CANARY_WAIT_S[stage.removal],
            ),
            termination_wait_in_seconds=_TERMINATION_WAIT_S[stage.removal],
            maximum_execution_timeout_in_seconds=_MAX_DEPLOYMENT_S,
        ),
        auto_rollback_configuration=sagemaker.CfnEndpoint.AutoRollbackConfigProperty(
            alarms=[sagemaker.CfnEndpoint.AlarmProperty(alarm_name=guard.alarm_name) for guard in guards]
        ),
    )
