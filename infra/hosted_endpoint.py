"""What endpoints of all modes share: a name for ever, kept weights and counts, grants by name, metrics by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.deployment import endpoint_update
from infra.endpoint_config import EndpointConfig
from infra.metrics import Dimensions, sagemaker_metric
from serving.spec import DeploymentSpec


class HostedEndpoint(Construct):
    """An endpoint whose config changes and whose name does not; `parts` maps a variant or component to its metrics.

    RetainAllVariantProperties keeps weights and counts at an update; nothing is excluded from it (ADR 0001).
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        config: EndpointConfig,
        parts: Mapping[str, Dimensions],
        deployment: DeploymentSpec | None,
        guards: Sequence[cloudwatch.Alarm] = (),
    ) -> None:
        super().__init__(scope, id_)
        self.name = name
        self.parts = parts
        self.cfn = sagemaker.CfnEndpoint(
            self,
            "Endpoint",
            endpoint_name=name,
            endpoint_config_name=config.config_name,
            retain_all_variant_properties=True,
            deployment_config=endpoint_update(deployment, guards=guards) if deployment is not None else None,
        )

    def metric_model_latency(self, part: str, *, statistic: str = "p99") -> cloudwatch.Metric:
        """Time in the container as SageMaker sees it, microseconds."""
        return self._metric("ModelLatency", part, statistic=statistic, label=f"{part} {statistic}")

    def metric_error_rate(self, part: str) -> cloudwatch.Metric:
        """Share of invocations that ended in 5xx: each request counts 1 or 0, so the average is the rate."""
        return self._metric("Invocation5XXErrors", part, statistic="Average", label=part)

    def metric_invocations(self, part: str) -> cloudwatch.Metric:
        """Requests a minute."""
        return self._metric("Invocations", part, statistic="Sum", label=part)

    def _metric(self, name: str, part: str, *, statistic: str, label: str) -> cloudwatch.Metric:
        return sagemaker_metric(name, dimensions=self.parts[part], statistic=statistic, label=label)

    def _grant(self, grantee: iam.IGrantable, *actions: str, components: Sequence[str] = ()) -> None:
        # by names, which never change: a reference would tie the callers' stacks to this one for ever
        stack = Stack.of(self)
        prefix = f"arn:aws:sagemaker:{stack.region}:{stack.account}"
        arns = [f"{prefix}:endpoint/{self.name}", *(f"{prefix}:inference-component/{name}" for name in components)]
        iam.Grant.add_to_principal(grantee=grantee, actions=list(actions), resource_arns=arns)
