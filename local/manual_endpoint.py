"""One endpoint of the control plane whose time is moved by hand: no process behind it, the same rules.

It answers the calls of boto3 that a release makes, in the shapes of boto3, so that the product's own adapter drives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from botocore.exceptions import ClientError

from local.aws_json import AwsError, Json
from local.sagemaker.deployment import COUNT, WEIGHT, describe
from local.sagemaker.endpoint import Endpoint, Variant, endpoint_of_document
from local.sagemaker.plan import Plan
from local.sagemaker.transitions import (
    Alarmed,
    Created,
    Durations,
    Event,
    Healthy,
    NoCapacity,
    Rescaled,
    Ticked,
    Updated,
    create,
    step,
)

PROVISIONING_S = 600.0
"""How long new instances take here; SageMaker says of no time."""

_TAKES = Durations(scaling_s=180.0, rolling_back_s=60.0, deleting_s=60.0)


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What an endpoint meets: whether instances are to be had, and which alarms of a deployment are in ALARM."""

    capacity: Callable[[], bool] = lambda: True
    alarmed: Callable[[Sequence[str]], bool] = lambda _names: False


@dataclass(slots=True)
class ManualEndpoint:
    """The endpoint, and what waits for its time; `clock` gives the seconds since the epoch."""

    endpoint: Endpoint
    clock: Callable[[], float]
    meets: Surroundings = field(default_factory=Surroundings)

    @classmethod
    def serving(cls, name: str, variants: Mapping[str, tuple[float, int]], *, clock: Callable[[], float]) -> Self:
        """Give an endpoint InService with a weight and a count for each variant."""
        settled = tuple(
            Variant.settled(variant, weight=weight, count=count) for variant, (weight, count) in variants.items()
        )
        made, _ = create(Created(name=name, config=f"{name}-1", variants=settled), now=clock())
        found = cls(made, clock)
        found._tell(Healthy(fleet=1))
        return found

    @classmethod
    def of_document(cls, document: Mapping[str, Any], *, clock: Callable[[], float]) -> Self:
        """Give the endpoint that `document` wrote."""
        return cls(endpoint_of_document(document), clock)

    def document(self) -> Json:
        """Give all that it is, as JSON."""
        return asdict(self.endpoint)

    def tick(self) -> None:
        """Let happen what is due by now."""
        rollout = self.endpoint.rollout
        if rollout is not None and rollout.step == 0 and rollout.began + PROVISIONING_S <= self.clock():
            self._tell(Healthy(fleet=rollout.fleet.number))
        if rollout is not None and rollout.bakes and self.meets.alarmed(rollout.plan.alarms):
            self._tell(Alarmed(fleet=rollout.fleet.number))
        due = self.endpoint.next_due
        if due is not None and due <= self.clock():
            self._tell(Ticked())

    def deploy(self, config: str, plan: Plan) -> None:
        """Begin to move to another config of the same variants, as UpdateEndpoint with retained properties does.

        Raises:
            ValidationError: the endpoint is not InService.

        """
        fleet = self.endpoint.fleet
        self._tell(Updated(config=config, variants=fleet.variants if fleet is not None else (), plan=plan))

    def describe_endpoint(self, **call: Any) -> Json:  # noqa: ANN401 - as boto3
        """Answer DescribeEndpoint."""
        del call
        variants = [{"VariantName": variant.name} for variant in self._variants()]
        deployment = {"config": {"ProductionVariants": variants}, "containers": {}, "at": self.endpoint.created}
        fleets = (self.endpoint.fleet, self.endpoint.rollout.fleet if self.endpoint.rollout is not None else None)
        deployments = {fleet.number: deployment for fleet in fleets if fleet is not None}
        return describe(self.endpoint, deployments, arn=self.endpoint.name, policy=None)

    def update_endpoint_weights_and_capacities(self, **call: Any) -> Json:  # noqa: ANN401 - as boto3
        """Answer UpdateEndpointWeightsAndCapacities.

        Raises:
            ClientError: as boto3 raises what the endpoint refuses.

        """
        changes = {
            change["VariantName"]: (change.get(WEIGHT), change.get(COUNT))
            for change in call["DesiredWeightsAndCapacities"]
        }
        try:
            self._tell(Rescaled(changes=changes))
        except AwsError as error:
            told: Any = {"Error": {"Code": error.code, "Message": str(error)}}
            raise ClientError(told, "UpdateEndpointWeightsAndCapacities") from error
        if any(variant.desired_count > variant.count for variant in self._variants()) and not self.meets.capacity():
            self._tell(NoCapacity())
        return {"EndpointArn": self.endpoint.name}

    @staticmethod
    def describe_scalable_targets(**call: Any) -> Json:  # noqa: ANN401 - as boto3
        """Answer DescribeScalableTargets of Application Auto Scaling: nothing scales it."""
        del call
        return {"ScalableTargets": []}

    def _variants(self) -> tuple[Variant, ...]:
        return self.endpoint.fleet.variants if self.endpoint.fleet is not None else ()

    def _tell(self, event: Event) -> None:
        moved, _ = step(self.endpoint, event, now=self.clock(), takes=_TAKES)
        if moved is not None:
            self.endpoint = moved
