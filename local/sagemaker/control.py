"""The control plane: what each SageMaker operation does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from local.aws_json import Handler, Json, ValidationError
from local.clock import Clock
from local.sagemaker.configs import refuse_config
from local.sagemaker.deployment import (
    COUNT,
    WEIGHT,
    all_variants,
    describe,
    initial_variants,
    new_deployment,
    retained,
)
from local.sagemaker.endpoint import Fleet, Variant
from local.sagemaker.fleet import Fleets
from local.sagemaker.listing import Listing, page, part
from local.sagemaker.plan import paced, plan_of
from local.sagemaker.store import Store
from local.sagemaker.transitions import Created, Rescaled, Updated

_MOST_TAGS = 50
"""Of a resource (SageMaker API reference, AddTags), and of an answer where MaxResults says nothing."""
_MODELS = Listing("Models", ("ModelName", "ModelArn", "CreationTime"), name="ModelName")
_CONFIGS = Listing(
    "EndpointConfigs", ("EndpointConfigName", "EndpointConfigArn", "CreationTime"), name="EndpointConfigName"
)
_ENDPOINTS = Listing(
    "Endpoints",
    ("EndpointName", "EndpointArn", "CreationTime", "LastModifiedTime", "EndpointStatus"),
    name="EndpointName",
)


class ControlPlane:
    """Operations over the store; whatever takes time is left to the fleets.

    `scaled` says whether Application Auto Scaling holds a resource, as `endpoint/NAME/variant/NAME`.
    """

    def __init__(
        self,
        store: Store,
        fleets: Fleets,
        *,
        scaled: Callable[[str], bool],
        clock: Clock,
        bake_pace: float = 1.0,
    ) -> None:
        self._store = store
        self._fleets = fleets
        self._scaled = scaled
        self._clock = clock
        self._bake_pace = bake_pace

    def operations(self) -> Mapping[str, Handler]:
        """Give the operations by AWS's names."""
        return {
            "CreateModel": self.create_model,
            "DescribeModel": lambda call: dict(self._store.model(call["ModelName"])),
            "DeleteModel": self.delete_model,
            "ListModels": lambda call: page(_MODELS, self._store.models, call),
            "CreateEndpointConfig": self.create_config,
            "DescribeEndpointConfig": lambda call: dict(self._store.config(call["EndpointConfigName"])),
            "DeleteEndpointConfig": self.delete_config,
            "ListEndpointConfigs": lambda call: page(_CONFIGS, self._store.configs, call),
            "CreateEndpoint": self.create_endpoint,
            "DescribeEndpoint": self.describe_endpoint,
            "UpdateEndpoint": self.update_endpoint,
            "UpdateEndpointWeightsAndCapacities": self.update_weights,
            "DeleteEndpoint": self.delete_endpoint,
            "ListEndpoints": lambda call: page(_ENDPOINTS, self._described(), call),
            "AddTags": self.add_tags,
            "ListTags": lambda call: part("Tags", self._store.tags.get(self._tagged(call), []), call, most=_MOST_TAGS),
            "DeleteTags": self.delete_tags,
        }

    def create_model(self, call: Json) -> Json:
        """Remember a model; its archive is read when an endpoint needs it."""
        name = call["ModelName"]
        self._store.refuse_existing(self._store.models, called="model", kind="model", name=name)
        containers = [*call.get("Containers", ()), *([call["PrimaryContainer"]] if "PrimaryContainer" in call else ())]
        if len(containers) != 1:
            raise ValidationError(
                f"got {len(containers)} containers; the local SageMaker serves exactly one; give PrimaryContainer"
            )
        arn = self._store.arn("model", name)
        self._store.models[name] = _kept(call) | {"ModelArn": arn, "CreationTime": self._clock.now()}
        self._tag_new(arn, call)
        return {"ModelArn": arn}

    def delete_model(self, call: Json) -> Json:
        """Forget a model; endpoints that serve it go on."""
        self._store.model(call["ModelName"])
        del self._store.models[call["ModelName"]]
        return self._untag(self._store.arn("model", call["ModelName"]))

    def create_config(self, call: Json) -> Json:
        """Remember an endpoint config whose models exist."""
        name = call["EndpointConfigName"]
        self._store.refuse_existing(
            self._store.configs, called="endpoint configuration", kind="endpoint-config", name=name
        )
        refuse_config(call)
        for variant in all_variants(call):
            if "ModelName" in variant:
                self._store.model(variant["ModelName"])
        arn = self._store.arn("endpoint-config", name)
        self._store.configs[name] = _kept(call) | {"EndpointConfigArn": arn, "CreationTime": self._clock.now()}
        self._tag_new(arn, call)
        return {"EndpointConfigArn": arn}

    def delete_config(self, call: Json) -> Json:
        """Forget a config; endpoints that use it go on, as AWS lets them."""
        self._store.config(call["EndpointConfigName"])
        del self._store.configs[call["EndpointConfigName"]]
        return self._untag(self._store.arn("endpoint-config", call["EndpointConfigName"]))

    def create_endpoint(self, call: Json) -> Json:
        """Begin to create an endpoint; a DeploymentConfig is for its updates."""
        name = call["EndpointName"]
        # names are case-insensitive here and nowhere else (API CreateEndpoint)
        taken = next((held for held in self._store.endpoints if held.lower() == name.lower()), name)
        self._store.refuse_existing(self._store.endpoints, called="endpoint", kind="endpoint", name=taken)
        deployment = self._deployment(call["EndpointConfigName"])
        variants = initial_variants(deployment["config"])
        self._remember_policy(name, call, keeps=False)
        self._fleets.create(Created(name=name, config=call["EndpointConfigName"], variants=variants), deployment)
        arn = self._store.arn("endpoint", name)
        self._tag_new(arn, call)
        return {"EndpointArn": arn}

    def describe_endpoint(self, call: Json) -> Json:
        """Describe an endpoint with the capture and metrics of its current config."""
        self._store.endpoint(call["EndpointName"])
        return self._described_one(call["EndpointName"])

    def update_endpoint(self, call: Json) -> Json:
        """Begin to move an endpoint to another config, in the steps of its DeploymentConfig."""
        name = call["EndpointName"]
        self._fleets.refuse_in_progress(name)
        deployment = self._deployment(call["EndpointConfigName"])
        self._refuse_types_under_scaling(name, deployment["config"])
        variants = initial_variants(deployment["config"])
        fleet = self._store.endpoint(name).fleet
        if fleet is not None and call.get("RetainAllVariantProperties", False):
            variants = retained(variants, fleet, exclude=call.get("ExcludeRetainedVariantProperties", ()))
        policy = call.get("DeploymentConfig")
        if policy is None and call.get("RetainDeploymentConfig", False):
            policy = self._store.policies.get(name)
        if policy and fleet is not None:
            _refuse_other_names(fleet, variants)
        instances = sum(variant.count for variant in variants)
        plan = paced(plan_of(policy, instances=instances, variants=len(variants)), self._bake_pace)
        self._remember_policy(name, call, keeps=call.get("RetainDeploymentConfig", False))
        self._fleets.update(name, Updated(config=call["EndpointConfigName"], variants=variants, plan=plan), deployment)
        return {"EndpointArn": self._store.arn("endpoint", name)}

    def update_weights(self, call: Json) -> Json:
        """Begin to give variants new weights or counts."""
        name = call["EndpointName"]
        self._fleets.refuse_in_progress(name)
        endpoint = self._store.endpoint(name)
        known = {variant.name for variant in endpoint.fleet.variants} if endpoint.fleet else set()
        changes = {
            change["VariantName"]: (change.get(WEIGHT), change.get(COUNT))
            for change in call["DesiredWeightsAndCapacities"]
        }
        unknown = sorted(set(changes) - known)
        if unknown:
            raise ValidationError(
                f'The variant name(s) "{", ".join(unknown)}" is/are not present within endpoint configuration '
                f'"{endpoint.config}".'
            )
        if any("ServerlessUpdateConfig" in change for change in call["DesiredWeightsAndCapacities"]):
            raise ValidationError("ServerlessUpdateConfig: not in the local SageMaker; leave it out")
        self._fleets.rescale(name, Rescaled(changes=changes))
        return {"EndpointArn": self._store.arn("endpoint", name)}

    def delete_endpoint(self, call: Json) -> Json:
        """Take an endpoint out of service; it is gone a little later, its processes when they have drained."""
        name = call["EndpointName"]
        self._store.endpoint(name)
        held = sorted(key for key, component in self._store.components.items() if component["EndpointName"] == name)
        if held:
            raise ValidationError(
                f'Cannot delete endpoint "{self._store.arn("endpoint", name)}": it hosts the inference components '
                f"{', '.join(held)}; delete them first"
            )
        self._fleets.delete(name)
        return {}

    def add_tags(self, call: Json) -> Json:
        """Set tags; a key that exists takes the new value."""
        arn = self._tagged(call)
        tags = {tag["Key"]: tag for tag in [*self._store.tags.get(arn, []), *call["Tags"]]}
        self._store.tags[arn] = list(tags.values())
        self._store.save()
        return {"Tags": self._store.tags[arn]}

    def delete_tags(self, call: Json) -> Json:
        """Remove tags by key."""
        arn = self._tagged(call)
        gone = set(call["TagKeys"])
        self._store.tags[arn] = [tag for tag in self._store.tags.get(arn, []) if tag["Key"] not in gone]
        self._store.save()
        return {}

    def _refuse_types_under_scaling(self, name: str, config: Json) -> None:
        """Refuse another instance type of a variant, or none of it, while it is scaled.

        SageMaker guide, *Update endpoints that use automatic scaling*; the wording of AWS is not known here.
        """
        fleet = self._store.endpoint(name).fleet
        now = _instance_types(self._store.deployments[name][fleet.number]["config"]) if fleet else {}
        then = _instance_types(config)
        for variant, kind in now.items():
            if then.get(variant) != kind and self._scaled(f"endpoint/{name}/variant/{variant}"):
                raise ValidationError(
                    f"variant {variant} of endpoint {name} is registered as a scalable target; deregister it before "
                    f"its instance type {kind} changes or it is removed"
                )

    def _deployment(self, config_name: str) -> Json:
        config = self._store.config(config_name)
        named = [variant["ModelName"] for variant in all_variants(config) if "ModelName" in variant]
        return new_deployment(config, {name: self._store.model(name) for name in named}, now=self._clock.now())

    def _remember_policy(self, name: str, call: Json, *, keeps: bool) -> None:
        if "DeploymentConfig" in call:
            self._store.policies[name] = call["DeploymentConfig"]
        elif not keeps:
            self._store.policies.pop(name, None)

    def _described(self) -> dict[str, Json]:
        return {name: self._described_one(name) for name in self._store.endpoints}

    def _described_one(self, name: str) -> Json:
        return describe(
            self._store.endpoints[name],
            self._store.deployments[name],
            arn=self._store.arn("endpoint", name),
            policy=self._store.policies.get(name),
        )

    def _tagged(self, call: Json) -> str:
        arn = str(call["ResourceArn"])
        kind, _, name = arn.rpartition(":")[2].partition("/")
        finders: Mapping[str, Callable[[str], object]] = {
            "model": self._store.model,
            "endpoint-config": self._store.config,
            "endpoint": self._store.endpoint,
            "inference-component": self._store.component,
        }
        if kind not in finders:
            raise ValidationError(f"{arn}: tags are kept for {', '.join(finders)}")
        finders[kind](name)
        return arn

    def _tag_new(self, arn: str, call: Json) -> None:
        self._store.tags[arn] = call.get("Tags", [])
        self._store.save()

    def _untag(self, arn: str) -> Json:
        self._store.tags.pop(arn, None)
        self._store.save()
        return {}


def _refuse_other_names(fleet: Fleet, variants: Iterable[Variant]) -> None:
    """Refuse a policy for other variants than there are (guide, *deployment-guardrails-exclusions*)."""
    now, then = ({variant.name for variant in each} for each in (fleet.variants, variants))
    if now != then:
        raise ValidationError(
            f"DeploymentConfig: got variants {', '.join(sorted(then))}; allowed: those of the old endpoint "
            f"configuration, {', '.join(sorted(now))}; leave DeploymentConfig out or keep the names"
        )


def _instance_types(config: Json) -> dict[str, str | None]:
    return {variant["VariantName"]: variant.get("InstanceType") for variant in config["ProductionVariants"]}


def _kept(call: Json) -> Json:
    return {key: value for key, value in call.items() if key != "Tags"}
