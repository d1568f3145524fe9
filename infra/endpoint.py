"""A real-time endpoint of two slots, a and b, whose names, weights and counts survive every deploy (ADR 0001, 0002)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.endpoint_config import EndpointConfig, Variant, model_variant
from infra.hosted_endpoint import HostedEndpoint
from infra.metrics import variant_dimensions
from infra.model import ModelVersion
from serving.spec import SLOTS, DeploymentSpec, HostingSpec, Slot

# Once, at creation: afterwards weights belong to the release record. 0 is meant: slot b gets no traffic yet.
_FIRST_WEIGHTS: Mapping[Slot, float] = {"a": 1, "b": 0}


def slot_variants(versions: Mapping[Slot, ModelVersion], *, hosting: HostingSpec, ami: str | None) -> list[Variant]:
    """Give variants a and b, each with its version."""
    return [
        model_variant(slot, model_name=versions[slot].model_name, hosting=hosting, ami=ami, weight=_FIRST_WEIGHTS[slot])
        for slot in SLOTS
    ]


class Endpoint(HostedEndpoint):
    """The endpoint `streamhub-<stage>-<slug>`: its name is for ever, its config a new one at each change."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        config: EndpointConfig,
        deployment: DeploymentSpec,
        guards: Sequence[cloudwatch.Alarm],
    ) -> None:
        super().__init__(
            scope,
            id_,
            name=name,
            config=config,
            parts={slot: variant_dimensions(name, slot) for slot in SLOTS},
            deployment=deployment,
            guards=guards,
        )

    def grant_invoke(self, grantee: iam.IGrantable) -> None:
        """Let it call the endpoint, any variant."""
        self._grant(grantee, "sagemaker:InvokeEndpoint")

    def grant_shift_traffic(self, grantee: iam.IGrantable) -> None:
        """Let it read the endpoint and set weights and counts; what a slot holds it cannot change."""
        self._grant(grantee, "sagemaker:DescribeEndpoint", "sagemaker:UpdateEndpointWeightsAndCapacities")
