"""A deployment: what a config asks for, and how DescribeEndpoint shows it; pure, so that its rules are testable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from local.aws_json import Json
from local.sagemaker.endpoint import Endpoint, Fleet, Rollout, Variant

COUNT = "DesiredInstanceCount"
WEIGHT = "DesiredWeight"
DEFAULT_WEIGHT = 1.0
DEFAULT_COUNT = 1
_SHOWN = ("RoutingConfig", "ManagedInstanceScaling")


def container_of(model: Json) -> Json:
    """Give the one container of a model."""
    container: Json = model["PrimaryContainer"] if "PrimaryContainer" in model else model["Containers"][0]
    return container


def all_variants(config: Json) -> Iterator[Json]:
    """Give production and shadow variants of a config."""
    yield from config["ProductionVariants"]
    yield from config.get("ShadowProductionVariants", ())


def new_deployment(config: Json, models: Mapping[str, Json], *, now: float) -> Json:
    """Give copies of all that a config's fleet needs, since config and models may be deleted while it serves."""
    return {
        "config": config,
        # a variant for inference components names no model
        "containers": {
            variant["VariantName"]: container_of(models[variant["ModelName"]])
            for variant in all_variants(config)
            if "ModelName" in variant
        },
        # by variant: {"path", "sha256"} of what was fetched
        "archives": {},
        "at": now,
    }


def initial_variants(config: Json) -> tuple[Variant, ...]:
    """Give the config's variants with their initial weights and counts."""
    return tuple(
        Variant.settled(
            variant["VariantName"],
            weight=variant.get("InitialVariantWeight", DEFAULT_WEIGHT),
            count=variant.get("InitialInstanceCount", DEFAULT_COUNT),
        )
        for variant in config["ProductionVariants"]
    )


def retained(variants: Iterable[Variant], fleet: Fleet, *, exclude: Iterable[Json]) -> tuple[Variant, ...]:
    """Keep weights and counts of variants that exist already, but those excluded (RetainAllVariantProperties)."""
    excluded = {item["VariantPropertyType"] for item in exclude}
    old = {variant.name: variant for variant in fleet.variants}

    def kept(variant: Variant) -> Variant:
        before = old.get(variant.name)
        if before is None:
            return variant
        weight = variant.weight if WEIGHT in excluded else before.desired_weight
        count = variant.count if COUNT in excluded else before.desired_count
        return Variant.settled(variant.name, weight=weight, count=count)

    return tuple(kept(variant) for variant in variants)


def describe(endpoint: Endpoint, deployments: Mapping[int, Json], *, arn: str, policy: Json | None) -> Json:
    """Give an endpoint as DescribeEndpoint does.

    Args:
        endpoint: its state.
        deployments: by number of the fleet.
        arn: its resource name.
        policy: the DeploymentConfig of its last deployment.

    """
    described: Json = {
        "EndpointName": endpoint.name,
        "EndpointArn": arn,
        "EndpointConfigName": endpoint.config,
        "EndpointStatus": endpoint.status,
        "CreationTime": endpoint.created,
        "LastModifiedTime": endpoint.modified,
    }
    if endpoint.failure:
        described["FailureReason"] = endpoint.failure
    if policy is not None:
        described["LastDeploymentConfig"] = policy
    if endpoint.fleet is not None:
        described |= _of_fleet(endpoint.fleet, deployments[endpoint.fleet.number])
    if endpoint.rollout is not None:
        number = endpoint.rollout.fleet.number
        described["PendingDeploymentSummary"] = _pending(endpoint.rollout, deployments[number])
    return described


def _of_fleet(fleet: Fleet, deployment: Json) -> Json:
    config = deployment["config"]
    described: Json = {"ProductionVariants": [_variant(variant, deployment) for variant in fleet.variants]}
    shadows = config.get("ShadowProductionVariants", ())
    if shadows:
        fixed = initial_variants({"ProductionVariants": shadows})
        described["ShadowProductionVariants"] = [_variant(variant, deployment) for variant in fixed]
    capture = capture_summary(config.get("DataCaptureConfig"))
    if capture is not None:
        described["DataCaptureConfig"] = capture
    return described | {key: config[key] for key in ("MetricsConfig", "AsyncInferenceConfig") if key in config}


def _pending(rollout: Rollout, deployment: Json) -> Json:
    status = {"Status": _stage(rollout), "StartTime": rollout.began}
    variants = [_variant(variant, deployment) | {"VariantStatus": [status]} for variant in rollout.fleet.variants]
    return {
        "EndpointConfigName": rollout.fleet.config,
        "StartTime": rollout.began,
        "ProductionVariants": variants,
    }


def _stage(rollout: Rollout) -> str:
    if rollout.step == 0:
        return "Creating"
    return "Baking" if rollout.bakes else "ActivatingTraffic"


def _variant(variant: Variant, deployment: Json) -> Json:
    image = deployment["containers"].get(variant.name, {}).get("Image")
    summary: Json = {
        "VariantName": variant.name,
        "CurrentWeight": variant.weight,
        "DesiredWeight": variant.desired_weight,
        "CurrentInstanceCount": variant.count,
        "DesiredInstanceCount": variant.desired_count,
    }
    if image is not None:
        resolved = {"SpecifiedImage": image, "ResolvedImage": image, "ResolutionTime": deployment["at"]}
        summary["DeployedImages"] = [resolved]
    given = next(given for given in all_variants(deployment["config"]) if given["VariantName"] == variant.name)
    return summary | {key: given[key] for key in _SHOWN if key in given}


def capture_summary(config: Json | None) -> Json | None:
    """Give the DataCaptureConfig of DescribeEndpoint."""
    if config is None:
        return None
    enabled = bool(config.get("EnableCapture", False))
    return {
        "EnableCapture": enabled,
        "CaptureStatus": "Started" if enabled else "Stopped",
        "CurrentSamplingPercentage": config["InitialSamplingPercentage"],
        "DestinationS3Uri": config["DestinationS3Uri"],
        "KmsKeyId": config.get("KmsKeyId", ""),
    }
