"""The control plane: what each SageMaker operation does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from local.aws_json import Handler, Json, ValidationError
from local.sagemaker.deployment import capture_summary, new_deployment, retain
from local.sagemaker.fleet import Fleets
from local.sagemaker.listing import Listing, page
from local.sagemaker.store import Store

_UNSERVED = ("AsyncInferenceConfig", "ShadowProductionVariants", "ExplainerConfig")
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

    def __init__(self, store: Store, fleets: Fleets, *, scaled: Callable[[str], bool]) -> None:
        self._store = store
        self._fleets = fleets
        self._scaled = scaled

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
            "ListEndpoints": lambda call: page(_ENDPOINTS, self._store.endpoints, call),
            "AddTags": self.add_tags,
            "ListTags": lambda call: {"Tags": self._store.tags.get(self._tagged(call), [])},
            "DeleteTags": self.delete_tags,
        }

    def create_model(self, call: Json) -> Json:
        """Remember a model; its archive is read when an endpoint needs it."""
        name = call["ModelName"]
        self._store.refuse_existing(self._store.models, called="model", kind="model", name=name)
        containers = call.get("Containers") or ([call["PrimaryContainer"]] if "PrimaryContainer" in call else [])
        if len(containers) != 1:
            raise ValidationError(
                f"got {len(containers)} containers; the local SageMaker serves exactly one; give PrimaryContainer"
            )
        arn = self._store.arn("model", name)
        self._store.models[name] = _kept(call) | {"ModelArn": arn, "CreationTime": time.time()}
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
        unserved = [key for key in _UNSERVED if key in call]
        unserved += ["ServerlessConfig" for variant in call["ProductionVariants"] if "ServerlessConfig" in variant]
        if unserved:
            raise ValidationError(f"{', '.join(unserved)}: not in the local SageMaker; leave it out")
        names = [variant["VariantName"] for variant in call["ProductionVariants"]]
        if len(set(names)) != len(names):
            raise ValidationError(f"Duplicate variant names: {', '.join(names)}; each must be unique")
        for variant in call["ProductionVariants"]:
            if "ModelName" not in variant:
                raise ValidationError(f"variant {variant['VariantName']}: ModelName is required in the local SageMaker")
            self._store.model(variant["ModelName"])
        arn = self._store.arn("endpoint-config", name)
        self._store.configs[name] = _kept(call) | {"EndpointConfigArn": arn, "CreationTime": time.time()}
        self._tag_new(arn, call)
        return {"EndpointConfigArn": arn}

    def delete_config(self, call: Json) -> Json:
        """Forget a config; endpoints that use it go on, as AWS lets them."""
        self._store.config(call["EndpointConfigName"])
        del self._store.configs[call["EndpointConfigName"]]
        return self._untag(self._store.arn("endpoint-config", call["EndpointConfigName"]))

    def create_endpoint(self, call: Json) -> Json:
        """Begin to create an endpoint."""
        name = call["EndpointName"]
        self._store.refuse_existing(self._store.endpoints, called="endpoint", kind="endpoint", name=name)
        deployment = self._deployment(call["EndpointConfigName"])
        now, arn = time.time(), self._store.arn("endpoint", name)
        endpoint: Json = {
            "EndpointName": name,
            "EndpointArn": arn,
            "EndpointConfigName": call["EndpointConfigName"],
            "CreationTime": now,
            "LastModifiedTime": now,
        }
        if "DeploymentConfig" in call:
            endpoint["LastDeploymentConfig"] = call["DeploymentConfig"]
        self._store.endpoints[name] = endpoint
        self._fleets.deploy(name, deployment, status="Creating")
        self._tag_new(arn, call)
        return {"EndpointArn": arn}

    def describe_endpoint(self, call: Json) -> Json:
        """Describe an endpoint with the capture and metrics of its current config."""
        name = call["EndpointName"]
        described = dict(self._store.endpoint(name))
        deployed = self._store.deployed.get(name)
        config = deployed["config"] if deployed is not None else {}
        capture = capture_summary(config.get("DataCaptureConfig"))
        if capture is not None:
            described["DataCaptureConfig"] = capture
        if "MetricsConfig" in config:
            described["MetricsConfig"] = config["MetricsConfig"]
        pending = self._store.pending.get(name)
        if pending is not None and deployed is not None:
            described["PendingDeploymentSummary"] = {
                "EndpointConfigName": pending["config"]["EndpointConfigName"],
                "StartTime": described["LastModifiedTime"],
            }
        return described

    def update_endpoint(self, call: Json) -> Json:
        """Begin to move an endpoint to another config, all at once when its processes are ready."""
        name = call["EndpointName"]
        self._fleets.refuse_in_progress(name)
        endpoint = self._store.endpoint(name)
        deployment = self._deployment(call["EndpointConfigName"])
        self._refuse_types_under_scaling(name, deployment["config"])
        if call.get("RetainAllVariantProperties", False):
            retain(deployment, endpoint, exclude=call.get("ExcludeRetainedVariantProperties", []))
        if not call.get("RetainDeploymentConfig", False):
            endpoint.pop("LastDeploymentConfig", None)
        if "DeploymentConfig" in call:
            endpoint["LastDeploymentConfig"] = call["DeploymentConfig"]
        self._fleets.deploy(name, deployment, status="Updating")
        return {"EndpointArn": endpoint["EndpointArn"]}

    def update_weights(self, call: Json) -> Json:
        """Begin to give variants new weights or counts."""
        endpoint = self._store.endpoint(call["EndpointName"])
        self._fleets.refuse_in_progress(call["EndpointName"])
        known = {variant["VariantName"] for variant in endpoint["ProductionVariants"]}
        wanted = [change["VariantName"] for change in call["DesiredWeightsAndCapacities"]]
        unknown = sorted(set(wanted) - known)
        if unknown:
            raise ValidationError(
                f'The variant name(s) "{", ".join(unknown)}" is/are not present within endpoint configuration '
                f'"{endpoint["EndpointConfigName"]}".'
            )
        self._fleets.change(call["EndpointName"], call["DesiredWeightsAndCapacities"])
        return {"EndpointArn": endpoint["EndpointArn"]}

    def delete_endpoint(self, call: Json) -> Json:
        """Forget an endpoint at once; its processes drain in the background."""
        endpoint = self._store.endpoint(call["EndpointName"])
        self._fleets.remove(call["EndpointName"])
        return self._untag(endpoint["EndpointArn"])

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
        deployed = self._store.deployed.get(name)
        now, then = _instance_types(deployed["config"]) if deployed else {}, _instance_types(config)
        for variant, kind in now.items():
            if then.get(variant) != kind and self._scaled(f"endpoint/{name}/variant/{variant}"):
                raise ValidationError(
                    f"variant {variant} of endpoint {name} is registered as a scalable target; deregister it before "
                    f"its instance type {kind} changes or it is removed"
                )

    def _deployment(self, config_name: str) -> Json:
        config = self._store.config(config_name)
        models = {
            variant["ModelName"]: self._store.model(variant["ModelName"]) for variant in config["ProductionVariants"]
        }
        return new_deployment(config, models)

    def _tagged(self, call: Json) -> str:
        arn = str(call["ResourceArn"])
        kind, _, name = arn.rpartition(":")[2].partition("/")
        finders = {"model": self._store.model, "endpoint-config": self._store.config, "endpoint": self._store.endpoint}
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


def _instance_types(config: Json) -> dict[str, str | None]:
    return {variant["VariantName"]: variant.get("InstanceType") for variant in config["ProductionVariants"]}


def _kept(call: Json) -> Json:
    return {key: value for key, value in call.items() if key != "Tags"}
