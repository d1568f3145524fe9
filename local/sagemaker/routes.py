"""Where a request to an endpoint goes: a variant by weight, or the one that the caller names."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from local.aws_json import Json
from local.sagemaker.servers import ModelServer
from serving.errors import EndpointError


@dataclass(frozen=True, slots=True)
class CaptureRule:
    """What an endpoint config captures, and where."""

    destination: str
    percent: int
    input: bool
    output: bool
    csv_types: frozenset[str]
    json_types: frozenset[str]


@dataclass(frozen=True, slots=True)
class Target:
    """One variant that can take requests."""

    endpoint: str
    config: str
    variant: str
    server: ModelServer
    capture: CaptureRule | None


class Route:
    """The variants of one endpoint at one moment; new weights make a new route."""

    def __init__(self, targets: Sequence[Target], weights: Mapping[str, float]) -> None:
        self._targets = {target.variant: target for target in targets}
        self._shares = [target for target in targets if weights[target.variant] > 0]
        self._edges = list(accumulate(weights[target.variant] for target in self._shares))

    def choose(self, chance: float) -> Target:
        """Give the variant that `chance` in [0, 1) falls on, each as often as its weight says.

        Raises:
            EndpointError: no variant has weight and instances.

        """
        if not self._edges:
            raise EndpointError("no production variant has a weight above 0 and an instance")
        place = bisect_right(self._edges, chance * self._edges[-1])
        return self._shares[min(place, len(self._shares) - 1)]

    def named(self, variant: str) -> Target | None:
        """Give the variant of that name whatever its weight, if it has instances."""
        return self._targets.get(variant)


def route_of(endpoint: Json, config: Json, servers: Mapping[str, ModelServer]) -> Route:
    """Give the route of an endpoint as described, over these processes."""
    capture = capture_rule(config.get("DataCaptureConfig"))
    variants = [variant for variant in endpoint["ProductionVariants"] if variant["CurrentInstanceCount"] > 0]
    targets = [
        Target(
            endpoint=endpoint["EndpointName"],
            config=endpoint["EndpointConfigName"],
            variant=variant["VariantName"],
            server=servers[variant["VariantName"]],
            capture=capture,
        )
        for variant in variants
    ]
    return Route(targets, {variant["VariantName"]: variant["CurrentWeight"] for variant in variants})


def capture_rule(config: Json | None) -> CaptureRule | None:
    """Give what a DataCaptureConfig asks for, or None if nothing."""
    if config is None or not config.get("EnableCapture", False):
        return None
    modes = {option["CaptureMode"] for option in config["CaptureOptions"]}
    types = config.get("CaptureContentTypeHeader", {})
    return CaptureRule(
        destination=config["DestinationS3Uri"],
        percent=config["InitialSamplingPercentage"],
        input=not modes.isdisjoint({"Input", "InputAndOutput"}),
        output=not modes.isdisjoint({"Output", "InputAndOutput"}),
        csv_types=frozenset(kind.lower() for kind in types.get("CsvContentTypes", ())),
        json_types=frozenset(kind.lower() for kind in types.get("JsonContentTypes", ())),
    )
