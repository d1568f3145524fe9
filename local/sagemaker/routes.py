"""Where a request to an endpoint goes: a fleet by its share, in it a variant by weight, or the one that is named."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from local.aws_json import Json
from local.sagemaker.configs import hosts_components
from local.sagemaker.endpoint import Endpoint, Fleet
from local.sagemaker.workers import Workers
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
    """One variant that can take requests, on `instances`; `shadow` sees a copy of `shadow_share` (0 to 1) of them."""

    endpoint: str
    config: str
    variant: str
    workers: Workers
    capture: CaptureRule | None
    shadow: Target | None = None
    shadow_share: float = 0.0
    component: str = ""
    instances: int = 1
    asynchronous: bool = False


@dataclass(frozen=True, slots=True)
class Weighted:
    """A target, how often it is chosen beside the others, and its fleet's share of the requests (0 to 1)."""

    target: Target
    weight: float
    share: float = 1.0


class Route:
    """The variants of one endpoint at one moment; new weights or shares make a new route.

    `asynchronous` is the AsyncInferenceConfig of an endpoint that is invoked so, on `instances` instances.
    """

    def __init__(
        self,
        entries: Sequence[Weighted],
        *,
        instances: int = 0,
        asynchronous: Json | None = None,
        hosts_components: bool = False,
    ) -> None:
        self.instances = instances
        self.asynchronous = asynchronous
        self.hosts_components = hosts_components
        self._all = _Choice([(entry.target, entry.weight) for entry in entries])
        names = {entry.target.variant for entry in entries}
        self._named = {
            name: _Choice([(entry.target, entry.share) for entry in entries if entry.target.variant == name])
            for name in names
        }

    def choose(self, chance: float) -> Target:
        """Give the variant that `chance` in [0, 1) falls on, each as often as its weight and its fleet's share say.

        Raises:
            EndpointError: no variant has weight and instances.

        """
        target = self._all.at(chance)
        if target is None:
            raise EndpointError("no production variant has a weight above 0 and an instance")
        return target

    def named(self, variant: str, chance: float = 0.0) -> Target | None:
        """Give the variant of that name whatever its weight, if it has instances, in the fleet `chance` falls on."""
        choice = self._named.get(variant)
        return choice.at(chance) if choice is not None else None


class _Choice:
    """Targets, each as often as its part of the whole."""

    def __init__(self, parts: Sequence[tuple[Target, float]]) -> None:
        held = [(target, part) for target, part in parts if part > 0]
        self._targets = [target for target, _ in held]
        self._edges = list(accumulate(part for _, part in held))

    def at(self, chance: float) -> Target | None:
        if not self._edges:
            return None
        place = bisect_right(self._edges, chance * self._edges[-1])
        return self._targets[min(place, len(self._targets) - 1)]


Running = Mapping[int, Mapping[str, Workers]]
"""By number of the fleet and name of the variant."""


def route_of(endpoint: Endpoint, configs: Mapping[int, Json], running: Running) -> Route:
    """Give the route of an endpoint over these processes; a fleet that does not run takes nothing.

    Args:
        endpoint: its state.
        configs: by number of the fleet.
        running: the processes of each fleet.

    """
    entries: list[Weighted] = []
    for fleet, share in endpoint.shares:
        if fleet.number in running:
            entries += _of_fleet(endpoint.name, fleet, share, configs[fleet.number], running[fleet.number])
    config = configs[endpoint.shares[0][0].number] if endpoint.shares else {}
    ready = endpoint.fleet is not None and endpoint.fleet.number in running
    return Route(
        entries,
        instances=sum(variant.count for variant in endpoint.fleet.variants) if endpoint.fleet and ready else 0,
        asynchronous=config.get("AsyncInferenceConfig"),
        hosts_components=hosts_components(config),
    )


def _of_fleet(
    endpoint: str, fleet: Fleet, share: float, config: Json, servers: Mapping[str, Workers]
) -> list[Weighted]:
    capture = capture_rule(config.get("DataCaptureConfig"))
    shadow, shadow_share = _shadow(endpoint, config, servers, capture)
    ready = [variant for variant in fleet.variants if variant.count > 0 and variant.name in servers]
    total = sum(variant.weight for variant in ready)
    return [
        Weighted(
            Target(
                endpoint=endpoint,
                config=fleet.config,
                variant=variant.name,
                workers=servers[variant.name],
                capture=capture,
                shadow=shadow,
                shadow_share=shadow_share,
                instances=variant.count,
                asynchronous="AsyncInferenceConfig" in config,
            ),
            weight=share * variant.weight / total if total > 0 else 0.0,
            share=share,
        )
        for variant in ready
    ]


def _shadow(
    endpoint: str, config: Json, servers: Mapping[str, Workers], capture: CaptureRule | None
) -> tuple[Target | None, float]:
    """Give the one shadow variant and its share: its weight over the production variant's (shadow-tests-create)."""
    shadows = config.get("ShadowProductionVariants", ())
    if not shadows:
        return None, 0.0
    (variant,), (production,) = shadows, config["ProductionVariants"]
    name = variant["VariantName"]
    weight, of = (held.get("InitialVariantWeight", 1.0) for held in (variant, production))
    target = Target(
        endpoint=endpoint,
        config=config["EndpointConfigName"],
        variant=name,
        workers=servers[name],
        capture=capture,
    )
    return target, min(1.0, weight / of) if of > 0 else 0.0


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
