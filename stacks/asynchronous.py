"""Mode `async`, and the batch endpoint beside a real-time one: one variant behind a queue, from zero instances."""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct

from infra.alarms import SERVING, Objective, ObjectiveAlarms, deploy_guards
from infra.asynchronous import (
    VARIANT_NAME,
    AsyncEndpoint,
    Notifications,
    QueueAlarms,
    allow_exchange,
    async_config,
    exchange_of,
    wake_from_backlog,
)
from infra.endpoint_config import EndpointConfig, model_variant
from infra.scaling import Scaling, scalable_variant
from serving.spec import HostingSpec
from stacks.hosting import Hosting


def asynchronous(
    scope: Construct,
    hosting: Hosting,
    *,
    name: str,
    where: HostingSpec,
    version: str,
    objectives: Sequence[Objective],
) -> AsyncEndpoint:
    """Make an async endpoint of one version, its queue's alarms and its scaling.

    Its requests and answers are objects already: it captures nothing.
    """
    ground, model = hosting.ground, hosting.model
    spec = where.asynchronous
    exchange = exchange_of(name, spec=spec, telemetry=ground.telemetry)
    topics = Notifications(scope, "Topics", endpoint=name, key=ground.key) if spec.notify else None
    role = hosting.role(scope, endpoint=name)
    allow_exchange(role, exchange=exchange, notifications=topics)
    held = hosting.version(scope, "Version", version=version, role=role, network=ground.network)
    config = EndpointConfig(
        scope,
        "Queue",
        variants=(model_variant(VARIANT_NAME, model_name=held.model_name, hosting=where, ami=hosting.image.ami),),
        asynchronous=async_config(spec, exchange=exchange, notifications=topics, key=ground.key),
        key=ground.key,
    )
    guards = deploy_guards(
        scope,
        endpoint=name,
        model=model,
        variants=(VARIANT_NAME,),
        config=config,
        objectives=objectives,
        role=role,
    )
    endpoint = AsyncEndpoint(
        scope,
        "Endpoint",
        name=name,
        config=config,
        exchange=exchange,
        deployment=where.deployment,
        guards=guards,
    )
    if hosting.entry.autoscaling:
        scaled = scalable_variant(endpoint, VARIANT_NAME, name=name, hosting=where, backlog=endpoint.queue)
        wake_from_backlog(Scaling(scope, "Scaling", of=scaled, spec=where.scaling), endpoint)
    ObjectiveAlarms(
        scope, "Objectives", prefix=name, model=model, parts=endpoint.parts, objectives=objectives, patience=SERVING
    )
    QueueAlarms(scope, "QueueAlarms", endpoint=endpoint, spec=where.scaling, most=where.max_count)
    return endpoint
