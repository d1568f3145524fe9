"""Mode `realtime`: slots a and b as variants of one endpoint, each scaled by itself."""

from __future__ import annotations

from constructs import Construct

from infra.alarms import (
    SERVING,
    DriftAlarms,
    ObjectiveAlarms,
    deploy_guards,
    disk_objective,
    error_objective,
    latency_objective,
)
from infra.endpoint import Endpoint, slot_variants
from infra.endpoint_config import EndpointConfig, capture
from infra.scaling import Scaling, scalable_variant
from serving.spec import SLOTS, endpoint_name
from stacks.hosting import Hosting


def realtime(scope: Construct, hosting: Hosting) -> Endpoint:
    """Make the endpoint `streamhub-<stage>-<slug>`, its scaling and its alarms."""
    ground, model = hosting.ground, hosting.model
    name = endpoint_name(ground.stage.name, model.slug)
    role = hosting.role(scope, endpoint=name)
    role.allow_capture(ground.telemetry)
    versions = hosting.slot_versions(scope, role=role, network=ground.network)
    config = EndpointConfig(
        scope,
        "Slots",
        variants=slot_variants(versions, hosting=model.hosting, ami=hosting.image.ami),
        capture=capture(model.drift.capture_percent, telemetry=ground.telemetry, key=ground.key),
        key=ground.key,
    )
    objectives = (latency_objective(model), error_objective(model))
    guards = deploy_guards(
        scope, endpoint=name, model=model, variants=SLOTS, config=config, objectives=objectives, role=role
    )
    endpoint = Endpoint(scope, "Endpoint", name=name, config=config, deployment=model.hosting.deployment, guards=guards)
    if hosting.entry.autoscaling:
        for slot in SLOTS:
            scaled = scalable_variant(endpoint, slot, name=f"{name}-{slot}", hosting=model.hosting)
            Scaling(scope, f"Scaling{slot.upper()}", of=scaled, spec=model.hosting.scaling)
    ObjectiveAlarms(
        scope,
        "Objectives",
        prefix=name,
        model=model,
        parts=endpoint.parts,
        objectives=(*objectives, disk_objective()) if model.drift.capture_percent > 0 else objectives,
        patience=SERVING,
    )
    DriftAlarms(scope, "Drift", stage=ground.stage, model=model)
    return endpoint
