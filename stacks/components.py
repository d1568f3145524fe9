"""Mode `components`: one fleet, slots a and b as inference components on it."""

from __future__ import annotations

from constructs import Construct

from infra.alarms import SERVING, ObjectiveAlarms, error_objective, latency_objective
from infra.components import Component, ComponentEndpoint, fleet, wake_from_requests
from infra.endpoint_config import EndpointConfig
from infra.scaling import Scaling, scalable_component
from serving.spec import SLOTS, ComponentSpec, Slot, component_name, endpoint_name
from stacks.hosting import Hosting


def components(scope: Construct, hosting: Hosting) -> ComponentEndpoint:
    """Make the fleet `streamhub-<stage>-<slug>`, its components `…-a` and `…-b`, their scaling and alarms."""
    ground, model = hosting.ground, hosting.model
    spec = model.hosting.component
    if spec is None:
        raise ValueError(f"{model.name}: got mode components without [hosting.component]; run streamhub check")
    name = endpoint_name(ground.stage.name, model.slug)
    names: dict[Slot, str] = {slot: component_name(ground.stage.name, model.slug, slot) for slot in SLOTS}
    role = hosting.role(scope, endpoint=name, components=names)
    versions = hosting.slot_versions(scope, role=role, network=None)
    config = EndpointConfig(
        scope,
        "Fleet",
        variants=(fleet(model.hosting, ami=hosting.image.ami),),
        key=ground.key,
        role=role.role,
        network=ground.network,
    )
    endpoint = ComponentEndpoint(scope, "Endpoint", name=name, components=names, config=config)
    for slot in SLOTS:
        objectives = ObjectiveAlarms(
            scope,
            f"Objectives{slot.upper()}",
            prefix=name,
            model=model,
            parts={slot: endpoint.parts[slot]},
            objectives=(latency_objective(model), error_objective(model)),
            patience=SERVING,
        )
        role.allow_guards(*objectives.names)
        component = Component(
            scope,
            f"Component{slot.upper()}",
            slot=slot,
            endpoint=endpoint,
            version=versions[slot],
            hosting=model.hosting,
            spec=spec,
            deployment=model.hosting.deployment,
            guards=objectives.alarms,
        )
        if hosting.entry.autoscaling:
            _scale(scope, hosting, component, spec)
    return endpoint


def _scale(scope: Construct, hosting: Hosting, component: Component, spec: ComponentSpec) -> None:
    scaled = scalable_component(component.name, spec=spec)
    scaling = Scaling(scope, f"Scaling{component.slot.upper()}", of=scaled, spec=hosting.model.hosting.scaling)
    scaling.node.add_dependency(component)
    if spec.min_copies == 0:
        wake_from_requests(scaling, component.name)
