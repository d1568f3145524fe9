"""A shadow endpoint beside a model: for a version that is to be seen under real requests before it answers any."""

from __future__ import annotations

from constructs import Construct

from infra.alarms import SERVING, ObjectiveAlarms, disk_objective, error_objective, latency_objective
from infra.endpoint_config import EndpointConfig, capture
from infra.shadow import ShadowEndpoint, shadow_variants
from serving.spec import ShadowSpec, shadow_endpoint_name
from stacks.hosting import Hosting

_EVERYTHING = 100


def shadow(scope: Construct, hosting: Hosting, spec: ShadowSpec) -> ShadowEndpoint:
    """Make `streamhub-<stage>-<slug>-shadow` of a slot's version and its shadow; it captures all, to be compared."""
    ground, model = hosting.ground, hosting.model
    name = shadow_endpoint_name(ground.stage.name, model.slug)
    role = hosting.role(scope, endpoint=name)
    role.allow_capture(ground.telemetry)
    versions = {
        id_: hosting.version(scope, id_, version=version, role=role, network=ground.network)
        for id_, version in (("Answers", hosting.version_in(spec.slot)), ("Shadow", spec.version))
    }
    production, shadowed = shadow_variants(
        spec,
        answers=versions["Answers"],
        shadow=versions["Shadow"],
        hosting=model.hosting,
        ami=hosting.image.ami,
    )
    config = EndpointConfig(
        scope,
        "Mirror",
        variants=(production,),
        shadows=(shadowed,),
        capture=capture(_EVERYTHING, telemetry=ground.telemetry, key=ground.key),
        key=ground.key,
    )
    endpoint = ShadowEndpoint(scope, "Endpoint", name=name, config=config)
    ObjectiveAlarms(
        scope,
        "Objectives",
        prefix=name,
        model=model,
        parts=endpoint.parts,
        objectives=(latency_objective(model), error_objective(model), disk_objective()),
        patience=SERVING,
    )
    return endpoint
