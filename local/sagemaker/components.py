"""Inference components: models that share an endpoint's instances, each with its own number of copies.

Source: SageMaker API reference, CreateInferenceComponent and its neighbours. A copy is a number here, one process
serves a component; computing resources are kept and not counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from datetime import datetime
from typing import Any

from local.aws_json import Handler, Json, ValidationError
from local.clock import Clock
from local.sagemaker.configs import hosts_components
from local.sagemaker.deployment import container_of
from local.sagemaker.listing import Listing, page
from local.sagemaker.options import Options
from local.sagemaker.provisioning import Provisioner
from local.sagemaker.routes import Target, capture_rule
from local.sagemaker.store import Store
from local.sagemaker.workers import Workers
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
_log = logging.getLogger(__name__)


class Components:
    """The components by name, the process of each, and the work that changes them; all on one event loop."""

    def __init__(self, store: Store, *, provisioner: Provisioner, clock: Clock, options: Options) -> None:
        self._store = store
        self._provisioner = provisioner
        self._clock = clock
        self._options = options
        self._servers: dict[str, Workers] = {}
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
            deleted = component["InferenceComponentStatus"] == "Deleting"
            self._begin(name, self._remove(name) if deleted else self._deploy(name))

    async def stop(self) -> None:
        """Stop all work; the processes end with the provisioner."""
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)

    def target(self, endpoint: str, name: str, _chance: float) -> Target | None:
        """Give what answers for a component; a call that finds no copy is counted, for that is what wakes one."""
        component = self._store.components.get(name)
        if component is None or component["EndpointName"] != endpoint:
            return None
        server = self._servers.get(name)
        if server is None or component["copies"] == 0:
            self._refused[name] += 1
            return None
        config = self._config(endpoint)
        return Target(
            endpoint=endpoint,
            config=config["EndpointConfigName"],
            variant=component["VariantName"],
            workers=server,
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
            "spec": _one_specification(call),
            "copies": 0,
            "desired": call.get("RuntimeConfig", {}).get("CopyCount", 1),
            "CreationTime": now,
            "LastModifiedTime": now,
            "InferenceComponentStatus": "Creating",
        }
        self._container(component)
        self._store.components[name] = component
        arn = self._store.arn("inference-component", name)
        self._store.tags[arn] = call.get("Tags", [])
        self._begin(name, self._deploy(name))
        return {"InferenceComponentArn": arn}

    def update(self, call: Json) -> Json:
        """Begin to give a component another model or number of copies."""
        component = self._changeable(call["InferenceComponentName"])
        if "Specification" in call or "Specifications" in call:
            changed = component | {"spec": component["spec"] | _one_specification(call)}
            self._container(changed)
            component["spec"] = changed["spec"]
        if "DeploymentConfig" in call:
            component["LastDeploymentConfig"] = call["DeploymentConfig"]
        return self._change(component, call.get("RuntimeConfig", {}))

    def rescale(self, call: Json) -> Json:
        """Begin to give a component another number of copies."""
        return self._change(self._changeable(call["InferenceComponentName"]), call["DesiredRuntimeConfig"])

    def delete(self, call: Json) -> Json:
        """Begin to take a component off its endpoint."""
        name = call["InferenceComponentName"]
        component = self._store.component(name)
        self._mark(component, "Deleting")
        work = self._work.pop(name, None)
        if work is not None:
            work.cancel()
        self._begin(name, self._remove(name))
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
        self._begin(name, self._deploy(name))
        return {"InferenceComponentArn": self._store.arn("inference-component", name)}

    def _changeable(self, name: str) -> Json:
        component = self._store.component(name)
        if component["InferenceComponentStatus"] not in {"InService", "Failed"}:
            arn = self._store.arn("inference-component", name)
            raise ValidationError(f'Cannot update in-progress inference component "{arn}".')
        return component

    async def _deploy(self, name: str) -> None:
        component = self._store.components[name]
        try:
            held = await self._provisioner.bring_up(self._deployment(component), wait=True)
        except EndpointError as error:
            _log.warning("inference component %s: %s", name, error)
            component["FailureReason"] = str(error)
            # an update that fails leaves what served
            self._mark(component, "InService" if name in self._servers else "Failed")
            return
        before, self._servers[name] = self._servers.get(name), held[name]
        if before is not None:
            await self._provisioner.release([before])
        await self._clock.sleep(self._options.weights_update_s)
        component["copies"] = component["desired"]
        component.pop("FailureReason", None)
        self._mark(component, "InService")

    async def _remove(self, name: str) -> None:
        await self._clock.sleep(self._options.deletion_s)
        server = self._servers.pop(name, None)
        del self._store.components[name]
        self._store.tags.pop(self._store.arn("inference-component", name), None)
        self._store.save()
        if server is not None:
            await self._provisioner.release([server])

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._store.save()
        self._work[name] = asyncio.create_task(work, name=f"inference component {name}")

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

    def _container(self, component: Json) -> Json:
        spec = component["spec"]
        if "ModelName" in spec:
            return container_of(self._store.model(spec["ModelName"]))
        container: Json = spec.get("Container", {})
        if "Image" not in container:
            raise ValidationError("Specification: got neither ModelName nor Container.Image; give one")
        return container | ({"ModelDataUrl": container["ArtifactUrl"]} if "ArtifactUrl" in container else {})

    def _deployment(self, component: Json) -> Json:
        name = component["InferenceComponentName"]
        variant = {"VariantName": name, **component["spec"].get("StartupParameters", {})}
        return {
            "config": {"ProductionVariants": [variant]},
            "containers": {name: self._container(component)},
            "archives": {},
        }

    def _described(self, name: str) -> Json:
        component = self._store.component(name)
        spec = dict(component["spec"])
        container = spec.pop("Container", None)
        if container is not None:
            shown = {key: container[key] for key in ("ArtifactUrl", "Environment") if key in container}
            image = {"SpecifiedImage": container["Image"], "ResolvedImage": container["Image"]}
            spec["Container"] = shown | {"DeployedImage": image}
        hidden = ("spec", "copies", "desired")
        return {key: value for key, value in component.items() if key not in hidden} | {
            "InferenceComponentArn": self._store.arn("inference-component", name),
            "EndpointArn": self._store.arn("endpoint", component["EndpointName"]),
            "Specification": spec,
            "RuntimeConfig": {"DesiredCopyCount": component["desired"], "CurrentCopyCount": component["copies"]},
        }


def _one_specification(call: Json) -> Json:
    found = [call["Specification"]] if "Specification" in call else call.get("Specifications", [])
    if len(found) != 1:
        raise ValidationError(f"got {len(found)} specifications; the local SageMaker takes one; give Specification")
    spec: Json = found[0]
    if "BaseInferenceComponentName" in spec:
        raise ValidationError("BaseInferenceComponentName: adapters are not in the local SageMaker; leave it out")
    return spec
