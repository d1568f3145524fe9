"""Inference components: models that share an endpoint's instances, each with its own number of copies.

Source: SageMaker API reference, CreateInferenceComponent and its neighbours. Copies are numbers here as instances are;
computing resources are kept and not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from local.aws_json import Handler, Json, ValidationError
from local.clock import Clock
from local.sagemaker.configs import hosts_components
from local.sagemaker.copies import Copies
from local.sagemaker.deployment import container_of
from local.sagemaker.listing import Listing, page
from local.sagemaker.options import Options
from local.sagemaker.plan import ALL_AT_ONCE, Plan, component_plan, paced, plan_of_document
from local.sagemaker.routes import Target, capture_rule
from local.sagemaker.store import Store
from local.sagemaker.wire import validation
from serving.errors import EndpointError

_LISTING = Listing(
    "InferenceComponents",
    (
        "InferenceComponentName",
        "InferenceComponentArn",
        "EndpointName",
        "EndpointArn",
        "VariantName",
        "InferenceComponentStatus",
        "CreationTime",
        "LastModifiedTime",
    ),
    name="InferenceComponentName",
    status="InferenceComponentStatus",
)
_NO_CAPACITY = (
    "Inference Component has no capacity to process this request. ApplicationAutoScaling may be in-progress (if "
    "configured) or try to increase the capacity by invoking UpdateInferenceComponentRuntimeConfig API."
)
"""AWS's own words (AWS blog, *scale to zero*): callers tell by them that a component sleeps."""
_MODELS = frozenset({"ModelName", "Container"})
_log = logging.getLogger(__name__)

Work = Callable[[str], Coroutine[Any, Any, None]]
"""What is to be done with the component of a name."""


class Components:
    """The components by name and the work that changes them; all on one event loop."""

    def __init__(self, store: Store, copies: Copies, *, clock: Clock, options: Options) -> None:
        self._store = store
        self._copies = copies
        self._clock = clock
        self._options = options
        self._work: dict[str, asyncio.Task[None]] = {}
        self._refused: Counter[str] = Counter()

    def operations(self) -> Mapping[str, Handler]:
        """Give the operations by AWS's names."""
        return {
            "CreateInferenceComponent": self.create,
            "DescribeInferenceComponent": lambda call: self._described(call["InferenceComponentName"]),
            "UpdateInferenceComponent": self.update,
            "UpdateInferenceComponentRuntimeConfig": self.rescale,
            "DeleteInferenceComponent": self.delete,
            "ListInferenceComponents": self.list,
        }

    def resume(self) -> None:
        """Bring back the processes of the stored state."""
        for name, component in self._store.components.items():
            status = component["InferenceComponentStatus"]
            if status != "Failed":
                self._begin(name, self._remove if status == "Deleting" else self._resume)

    async def stop(self) -> None:
        """Stop all work; the processes end with the provisioner."""
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)

    def target(self, endpoint: str, name: str, chance: float) -> Target | None:
        """Give what answers for a component; a call that finds no copy is counted, for that is what wakes one.

        Raises:
            AwsError: it has no copy.

        """
        component = self._store.components.get(name)
        if component is None or component["EndpointName"] != endpoint:
            return None
        workers = self._copies.pick(name, chance)
        if workers is None or component["copies"] == 0:
            self._refused[name] += 1
            raise validation(_NO_CAPACITY)
        config = self._config(endpoint)
        return Target(
            endpoint=endpoint,
            config=config["EndpointConfigName"],
            variant=component["VariantName"],
            workers=workers,
            capture=capture_rule(config.get("DataCaptureConfig")),
            component=name,
            instances=component["copies"],
        )

    def metric_data(self, now: datetime) -> Iterator[Json]:
        """Give the calls that found no copy since the last time."""
        refused, self._refused = self._refused, Counter()
        for name, count in refused.items():
            yield {
                "MetricName": "NoCapacityInvocationFailures",
                "Dimensions": [{"Name": "InferenceComponentName", "Value": name}],
                "Timestamp": now,
                "Values": [1.0],
                "Counts": [float(count)],
                "Unit": "Count",
            }

    def create(self, call: Json) -> Json:
        """Begin to put a component on an endpoint that is in service."""
        name, endpoint = call["InferenceComponentName"], call["EndpointName"]
        self._store.refuse_existing(
            self._store.components, called="inference component", kind="inference-component", name=name
        )
        if self._store.endpoint(endpoint).status != "InService":
            raise ValidationError(f'Endpoint "{self._store.arn("endpoint", endpoint)}" is not InService; wait for it')
        variant = self._variant(endpoint, call.get("VariantName"))
        now = self._clock.now()
        component: Json = {
            "InferenceComponentName": name,
            "EndpointName": endpoint,
            "VariantName": variant,
            "copies": 0,
            "desired": call.get("RuntimeConfig", {}).get("CopyCount", 1),
            "CreationTime": now,
            "LastModifiedTime": now,
            "InferenceComponentStatus": "Creating",
        }
        component["pending"] = self._pending(_one_specification(call), ALL_AT_ONCE)
        self._store.components[name] = component
        arn = self._store.arn("inference-component", name)
        self._store.tags[arn] = call.get("Tags", [])
        self._begin(name, self._deploy)
        return {"InferenceComponentArn": arn}

    def update(self, call: Json) -> Json:
        """Begin to give a component another model or number of copies."""
        component = self._changeable(call["InferenceComponentName"])
        runtime = call.get("RuntimeConfig", {})
        changed: Json = {}
        if "DeploymentConfig" in call:
            changed["LastDeploymentConfig"] = call["DeploymentConfig"]
        if "Specification" in call or "Specifications" in call:
            copies = runtime.get("CopyCount", component["desired"])
            plan = paced(component_plan(call.get("DeploymentConfig"), copies=copies), self._options.bake_pace)
            served = component.get("spec", component["pending"]["spec"] if "pending" in component else {})
            changed["pending"] = self._pending(_changed(served, _one_specification(call)), plan)
        component |= changed  # once nothing of the call can be refused any more
        return self._change(component, runtime)

    def rescale(self, call: Json) -> Json:
        """Begin to give a component another number of copies."""
        return self._change(self._changeable(call["InferenceComponentName"]), call["DesiredRuntimeConfig"])

    def delete(self, call: Json) -> Json:
        """Begin to take a component off its endpoint."""
        name = call["InferenceComponentName"]
        component = self._store.component(name)
        if component["InferenceComponentStatus"] == "Deleting":
            return {}
        self._mark(component, "Deleting")
        if name in self._work:
            self._work[name].cancel()
        self._begin(name, self._remove)
        return {}

    def list(self, call: Json) -> Json:
        """Give one page of the components, of one endpoint or variant if asked."""
        found = {
            name: self._described(name)
            for name, component in self._store.components.items()
            if call.get("EndpointNameEquals", component["EndpointName"]) == component["EndpointName"]
            and call.get("VariantNameEquals", component["VariantName"]) == component["VariantName"]
        }
        return page(_LISTING, found, call)

    def _change(self, component: Json, runtime: Json) -> Json:
        name = component["InferenceComponentName"]
        component["desired"] = runtime.get("CopyCount", component["desired"])
        self._mark(component, "Updating")
        self._begin(name, self._deploy)
        return {"InferenceComponentArn": self._store.arn("inference-component", name)}

    def _changeable(self, name: str) -> Json:
        component = self._store.component(name)
        if component["InferenceComponentStatus"] not in {"InService", "Failed"}:
            arn = self._store.arn("inference-component", name)
            raise ValidationError(f'Cannot update in-progress inference component "{arn}".')
        return component

    async def _resume(self, name: str) -> None:
        component = self._store.components[name]
        if "spec" in component:
            with contextlib.suppress(EndpointError):  # what is not to be had is as good as no copy
                await self._copies.revive(name, self._deployment(component, component))
        if component["InferenceComponentStatus"] != "InService":
            await self._deploy(name)

    async def _deploy(self, name: str) -> None:
        """Move a component to its pending model, if there is one, and to its desired number of copies."""
        component = self._store.components[name]
        component.pop("FailureReason", None)
        if (pending := component.get("pending")) is not None:
            deployment, plan = self._deployment(component, pending), plan_of_document(pending["plan"])
            try:
                await self._copies.move(name, deployment, plan, endpoint=component["EndpointName"])
            except EndpointError as error:
                self._keep_what_served(component, str(error))
                return
            del component["pending"]
            component |= {key: pending[key] for key in ("spec", "container", "archives")}
        await self._clock.sleep(self._options.weights_update_s)
        component["copies"] = component["desired"]
        self._mark(component, "InService")

    def _keep_what_served(self, component: Json, reason: str) -> None:
        """End an update that failed; a component that never served has Failed."""
        name = component["InferenceComponentName"]
        _log.warning("inference component %s: %s", name, reason)
        component["FailureReason"] = reason
        if "spec" not in component:
            self._mark(component, "Failed")
            return
        del component["pending"]
        component["desired"] = component["copies"]
        self._mark(component, "InService")

    async def _remove(self, name: str) -> None:
        await self._clock.sleep(self._options.deletion_s)
        del self._store.components[name]
        self._store.tags.pop(self._store.arn("inference-component", name), None)
        self._store.save()
        await self._copies.remove(name)

    def _begin(self, name: str, work: Work) -> None:
        self._store.save()
        task = asyncio.create_task(self._after(self._work.get(name), work, name), name=f"inference component {name}")
        self._work[name] = task
        task.add_done_callback(lambda _: self._work.pop(name) if self._work.get(name) is task else None)

    async def _after(self, before: asyncio.Task[None] | None, work: Work, name: str) -> None:
        """Work once what was done before has ended, for both would say what serves; its end too is cancelled."""
        if before is not None:
            await asyncio.gather(before, return_exceptions=True)
        await work(name)

    def _mark(self, component: Json, status: str) -> None:
        component["InferenceComponentStatus"] = status
        component["LastModifiedTime"] = self._clock.now()
        self._store.save()

    def _config(self, endpoint: str) -> Json:
        fleet = self._store.endpoint(endpoint).fleet
        config: Json = self._store.deployments[endpoint][fleet.number]["config"] if fleet is not None else {}
        return config

    def _variant(self, endpoint: str, wanted: str | None) -> str:
        config = self._config(endpoint)
        if not hosts_components(config):
            raise ValidationError(
                f"endpoint {endpoint}: its variants name models; inference components need a config without ModelName"
            )
        names = [variant["VariantName"] for variant in config["ProductionVariants"]]
        chosen = names[0] if wanted is None and len(names) == 1 else wanted
        if chosen not in names:
            raise ValidationError(f"VariantName: got {wanted}; allowed: {', '.join(names)}")
        return str(chosen)

    def _pending(self, spec: Json, plan: Plan) -> Json:
        """Give what a component is to become; copies of container and archive, since the model may be deleted."""
        return {"spec": spec, "container": self._container(spec), "archives": {}, "plan": asdict(plan)}

    def _container(self, spec: Json) -> Json:
        if "ModelName" in spec:
            return container_of(self._store.model(spec["ModelName"]))
        container: Json = spec.get("Container", {})
        if "Image" not in container:
            raise ValidationError("Specification: got neither ModelName nor Container.Image; give one")
        return container | ({"ModelDataUrl": container["ArtifactUrl"]} if "ArtifactUrl" in container else {})

    def _deployment(self, component: Json, held: Json) -> Json:
        """Give what the provisioner brings up, of the component's present or pending model."""
        name = component["InferenceComponentName"]
        hosts = {
            variant["VariantName"]: variant for variant in self._config(component["EndpointName"])["ProductionVariants"]
        }
        routing = hosts.get(component["VariantName"], {}).get("RoutingConfig", {})
        variant = {"VariantName": name, "RoutingConfig": routing, **held["spec"].get("StartupParameters", {})}
        return {
            "config": {"ProductionVariants": [variant]},
            "containers": {name: held["container"]},
            "archives": held["archives"],
        }

    def _described(self, name: str) -> Json:
        component = self._store.component(name)
        spec = dict(component["spec"] if "spec" in component else component["pending"]["spec"])
        container = spec.pop("Container", None)
        if container is not None:
            shown = {key: container[key] for key in ("ArtifactUrl", "Environment") if key in container}
            image = {"SpecifiedImage": container["Image"], "ResolvedImage": container["Image"]}
            spec["Container"] = shown | {"DeployedImage": image}
        hidden = ("spec", "container", "archives", "pending", "copies", "desired")
        return {key: value for key, value in component.items() if key not in hidden} | {
            "InferenceComponentArn": self._store.arn("inference-component", name),
            "EndpointArn": self._store.arn("endpoint", component["EndpointName"]),
            "Specification": spec,
            "RuntimeConfig": {"DesiredCopyCount": component["desired"], "CurrentCopyCount": component["copies"]},
        }


def _changed(served: Json, given: Json) -> Json:
    """Give a specification with what is given in place of what served; a model or a container replaces either."""
    kept = {key: value for key, value in served.items() if key not in _MODELS or _MODELS.isdisjoint(given)}
    return kept | given


def _one_specification(call: Json) -> Json:
    found = [call["Specification"]] if "Specification" in call else call.get("Specifications", [])
    if len(found) != 1:
        raise ValidationError(f"got {len(found)} specifications; the local SageMaker takes one; give Specification")
    spec: Json = found[0]
    if "BaseInferenceComponentName" in spec:
        raise ValidationError("BaseInferenceComponentName: adapters are not in the local SageMaker; leave it out")
    return spec
