"""A shadow endpoint: one version answers, another sees the same requests, and both are captured for comparison."""

from __future__ import annotations

from functools import partial

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.endpoint_config import EndpointConfig, Variant, model_variant
from infra.hosted_endpoint import HostedEndpoint
from infra.metrics import variant_dimensions
from infra.model import ModelVersion
from serving.spec import HostingSpec, ShadowSpec

PRODUCTION = "production"
SHADOW = "shadow"
_PERCENT = 100


def shadow_variants(
    spec: ShadowSpec, *, answers: ModelVersion, shadow: ModelVersion, hosting: HostingSpec, ami: str | None
) -> tuple[Variant, Variant]:
    """Give the variant that answers and the one that listens; there can be no other of either kind.

    The share of requests that the shadow sees is its weight over the production variant's, which is 1 (SageMaker
    guide, *shadow-tests-create*).
    """
    same = partial(model_variant, hosting=hosting, ami=ami, count=spec.count, instance_type=spec.instance_type)
    return (
        same(PRODUCTION, model_name=answers.model_name, weight=1),
        same(SHADOW, model_name=shadow.model_name, weight=spec.sampling_percent / _PERCENT),
    )


class ShadowEndpoint(HostedEndpoint):
    """`streamhub-<stage>-<slug>-shadow`: replaced at once, since nobody's answer depends on it."""

    def __init__(self, scope: Construct, id_: str, *, name: str, config: EndpointConfig) -> None:
        super().__init__(
            scope,
            id_,
            name=name,
            config=config,
            parts={variant: variant_dimensions(name, variant) for variant in (PRODUCTION, SHADOW)},
            deployment=None,
        )

    def grant_invoke(self, grantee: iam.IGrantable) -> None:
        """Let it send requests; the answers are the production variant's."""
        self._grant(grantee, "sagemaker:InvokeEndpoint")
