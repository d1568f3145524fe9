"""One model in a stage: its endpoint by hosting mode, and what the stage puts beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aws_cdk import CfnOutput
from constructs import Construct

from infra.alarms import error_objective, latency_objective
from infra.asynchronous import batch_hosting
from infra.endpoint import Endpoint
from infra.hosted_endpoint import HostedEndpoint
from serving.spec import HostingMode, ModelSpec, batch_endpoint_name, endpoint_name
from serving.spec.manifest import LockedVersion
from stacks.asynchronous import asynchronous
from stacks.base import StageStack
from stacks.components import components
from stacks.hosting import Ground, Hosting
from stacks.realtime import realtime
from stacks.shadow import shadow


class ModelStack(StageStack):
    """A model's endpoints: `hosted` is all of them, the one that answers users first; `endpoint` where it has slots.

    No other stack refers to a resource of this one, so that it can be removed and changed by itself: others know its
    endpoints by their names.
    """

    def __init__(
        self, scope: Construct, *, model: ModelSpec, locks: Mapping[str, LockedVersion], ground: Ground
    ) -> None:
        super().__init__(scope, model.slug, stage=ground.stage, description=f"model {model.name}")
        hosting = Hosting.of(model, ground=ground, locks=locks)
        main = _main(self, hosting)
        self.endpoint = main if isinstance(main, Endpoint) else None
        self.hosted = (main, *_beside(self, hosting))
        CfnOutput(self, "EndpointName", value=main.name)


def _main(scope: Construct, hosting: Hosting) -> HostedEndpoint:
    model = hosting.model
    match model.hosting.mode:
        case HostingMode.REALTIME:
            return realtime(scope, hosting)
        case HostingMode.ASYNC:
            return asynchronous(
                scope,
                hosting,
                name=endpoint_name(hosting.ground.stage.name, model.slug),
                where=model.hosting,
                version=hosting.version_in("a"),
                objectives=(latency_objective(model), error_objective(model)),
            )
        case HostingMode.COMPONENTS:
            return components(scope, hosting)


def _beside(scope: Construct, hosting: Hosting) -> Iterator[HostedEndpoint]:
    """Make what the stage file asks for beside it: a batch endpoint, a shadow."""
    model, entry = hosting.model, hosting.entry
    if model.hosting.batch is not None and entry.batch is not None:
        yield asynchronous(
            Construct(scope, "Batch"),
            hosting,
            name=batch_endpoint_name(hosting.ground.stage.name, model.slug),
            where=batch_hosting(model.hosting, model.hosting.batch),
            version=hosting.version_in(entry.batch.slot),
            objectives=(error_objective(model),),  # the p99 is the promise of the real-time endpoint
        )
    if entry.shadow is not None:
        yield shadow(Construct(scope, "Shadow"), hosting, entry.shadow)
