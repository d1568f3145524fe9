"""Weights and capacity of live endpoints, through SageMaker and Application Auto Scaling.

`UpdateEndpointWeightsAndCapacities` is asynchronous and refused while the endpoint is Updating; what it does not
name (here: the counts, or the weights) stays as it is (SageMaker API reference).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from serving.aws.hosted import read_endpoint
from serving.errors import EndpointError
from serving.ports import EndpointStatus, VariantStatus
from serving.preflight.stage_facts import digest_of
from serving.spec import SLOTS, Slot

if TYPE_CHECKING:
    from mypy_boto3_application_autoscaling import ApplicationAutoScalingClient
    from mypy_boto3_application_autoscaling.type_defs import ScalableTargetTypeDef
    from mypy_boto3_sagemaker import SageMakerClient
    from mypy_boto3_sagemaker.type_defs import ProductionVariantSummaryTypeDef

T = TypeVar("T")

_NAMESPACE: Final = "sagemaker"
_DIMENSION: Final = "sagemaker:variant:DesiredInstanceCount"


class SageMakerEndpointControl:
    """Describes endpoints and moves their traffic."""

    def __init__(self, client: SageMakerClient, scaling: ApplicationAutoScalingClient) -> None:
        self._client = client
        self._scaling = scaling

    def describe(self, endpoint: str) -> EndpointStatus:
        """Read an endpoint.

        Raises:
            EndpointError: unknown, unreachable, or without the slots a and b.

        """
        found = _call(endpoint, lambda: self._client.describe_endpoint(EndpointName=endpoint))
        variants = tuple(
            _variant(variant) for variant in found.get("ProductionVariants", []) if variant["VariantName"] in SLOTS
        )
        if len(variants) != len(SLOTS):
            # while it is created the answer has none yet
            names = [variant["VariantName"] for variant in found.get("ProductionVariants", [])]
            raise EndpointError(
                f"endpoint {endpoint}: got status {found['EndpointStatus']} and variants {names}; allowed variants "
                f"{', '.join(SLOTS)}; wait until it is InService, or deploy its stage"
            )
        return EndpointStatus(name=endpoint, status=found["EndpointStatus"], variants=variants)

    def holds(self, endpoint: str) -> dict[Slot, str]:
        """Give the digest of the archive that each slot serves, from the config and models that are live.

        Raises:
            EndpointError: unknown, unreachable, or its config or models may not be read.

        """
        found = _call(endpoint, lambda: read_endpoint(self._client, endpoint))
        digests = {slot: digest_of(held.archive) for slot in SLOTS if (held := found.slot(slot)) is not None}
        return {slot: digest for slot, digest in digests.items() if digest is not None}

    def set_weights(self, endpoint: str, weights: Mapping[Slot, float]) -> None:
        """Ask for weights; counts are kept.

        Raises:
            EndpointError: unknown, unreachable or busy.

        """
        wanted: Any = [{"VariantName": slot, "DesiredWeight": weight} for slot, weight in sorted(weights.items())]
        self._update(endpoint, wanted)

    def ensure_instances(self, endpoint: str, slot: Slot, count: int) -> bool:
        """Say whether a slot has that many instances; if not, ask for them and for no fewer from now on.

        Raises:
            EndpointError: unknown, unreachable or busy.

        """
        status = self.describe(endpoint)
        at = next(variant for variant in status.variants if variant.slot == slot)
        self._raise_minimum(endpoint, slot, count)
        if at.instances >= count:
            return True
        if at.desired_instances < count and status.status == "InService":
            wanted: Any = [{"VariantName": slot, "DesiredInstanceCount": count}]
            self._update(endpoint, wanted)
        return False

    def set_minimum(self, endpoint: str, slot: Slot, count: int) -> None:
        """Let the slot be scaled in to that many instances again; nothing to do where nothing scales it.

        Raises:
            EndpointError: Application Auto Scaling does not answer or refuses.

        """
        target = self._target(endpoint, slot)
        if target is not None and target["MinCapacity"] != count:
            self._register(endpoint, slot, count)

    def _raise_minimum(self, endpoint: str, slot: Slot, count: int) -> None:
        target = self._target(endpoint, slot)
        if target is not None and target["MinCapacity"] < count:
            self._register(endpoint, slot, min(count, target["MaxCapacity"]))

    def _target(self, endpoint: str, slot: Slot) -> ScalableTargetTypeDef | None:
        found = _call(
            endpoint,
            lambda: self._scaling.describe_scalable_targets(
                ServiceNamespace=_NAMESPACE, ResourceIds=[_resource(endpoint, slot)], ScalableDimension=_DIMENSION
            ),
        )
        return next(iter(found["ScalableTargets"]), None)

    def _register(self, endpoint: str, slot: Slot, minimum: int) -> None:
        # what is not named, as the maximum, keeps its value
        _call(
            endpoint,
            lambda: self._scaling.register_scalable_target(
                ServiceNamespace=_NAMESPACE,
                ResourceId=_resource(endpoint, slot),
                ScalableDimension=_DIMENSION,
                MinCapacity=minimum,
            ),
        )

    def _update(self, endpoint: str, wanted: Any) -> None:  # noqa: ANN401 - a list of the stubs' own dictionaries
        _call(
            endpoint,
            lambda: self._client.update_endpoint_weights_and_capacities(
                EndpointName=endpoint, DesiredWeightsAndCapacities=wanted
            ),
        )


def _resource(endpoint: str, slot: Slot) -> str:
    return f"endpoint/{endpoint}/variant/{slot}"


def _variant(found: ProductionVariantSummaryTypeDef) -> VariantStatus:
    weight, count = found.get("CurrentWeight", 0.0), found.get("CurrentInstanceCount", 0)
    return VariantStatus(
        slot="a" if found["VariantName"] == "a" else "b",
        weight=weight,
        instances=count,
        desired_weight=found.get("DesiredWeight", weight),
        desired_instances=found.get("DesiredInstanceCount", count),
    )


def _call(endpoint: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except ClientError as error:
        said = error.response.get("Error", {}).get("Message", str(error))
        raise EndpointError(
            f"endpoint {endpoint}: got {said}; allowed an endpoint that is InService; look at its status and try again"
        ) from error
    except BotoCoreError as error:
        raise EndpointError(
            f"endpoint {endpoint}: got {error}; allowed an answer of AWS; check network, region and AWS_ENDPOINT_URL"
        ) from error
