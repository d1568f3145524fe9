"""Instance types of live variants: an update is refused while Application Auto Scaling holds the variant."""

from __future__ import annotations

from collections.abc import Iterator

from serving.preflight.checks.check import Comparison
from serving.preflight.finding import Finding
from serving.preflight.live import LiveEndpoint, LiveVariant
from serving.preflight.planned import PlannedEndpoint, PlannedVariant

_SOURCE = "SageMaker guide, Update endpoints that use automatic scaling"


def instance_types(at: Comparison) -> Iterator[Finding]:
    """No autoscaled variant changes its instance type, or leaves, in one step."""
    for endpoint in at.planned.endpoints:
        live = at.live.endpoint(endpoint.name)
        if live is None:
            continue
        for held in live.variants:
            yield from _variant(at, endpoint, live, held)


def _variant(at: Comparison, endpoint: PlannedEndpoint, live: LiveEndpoint, held: LiveVariant) -> Iterator[Finding]:
    planned = endpoint.variant(held.name)
    resource = f"endpoint/{endpoint.name}/variant/{held.name}"
    scaled = at.live.target(resource) is not None
    if planned is None:
        if scaled:
            yield _refused(at, endpoint, held, "removed")
        return
    if None in {planned.instance_type, held.instance_type} or planned.instance_type == held.instance_type:
        return
    if scaled:
        yield _refused(at, endpoint, held, f"{planned.instance_type} in place of {held.instance_type}")
    else:
        yield _replaced(endpoint, live, held, planned)


def _refused(at: Comparison, endpoint: PlannedEndpoint, held: LiveVariant, got: str) -> Finding:
    model = at.facts.model_of(endpoint.name)
    return Finding(
        level="error",
        check="instance type",
        what=f"{endpoint.name} slot {held.name}",
        got=got,
        allowed=f"{held.instance_type} while a scalable target holds the variant",
        fix=f"deploy in two steps: (1) with the old type and autoscaling = false under [models.{model}] of "
        f"{at.facts.file}, which deregisters the targets: counts stay, so set them for the load first; (2) with the "
        f"new type and without that line, which updates the endpoint and then registers the targets again",
        source=_SOURCE,
    )


def _replaced(endpoint: PlannedEndpoint, live: LiveEndpoint, held: LiveVariant, planned: PlannedVariant) -> Finding:
    return Finding(
        level="warning",
        check="instance type",
        what=f"{endpoint.name} slot {held.name}",
        got=f"{planned.instance_type} in place of {held.instance_type}, with {held.desired_count} instances kept",
        allowed="a count that fits the new type",
        fix=f"the count of config {live.config} is kept, not computed anew: set it for the new type before or after",
        source=_SOURCE,
    )
