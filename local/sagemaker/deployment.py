"""A deployment: which archives, weights and counts an endpoint shall have; pure, so that its rules are testable."""

from __future__ import annotations

from collections.abc import Mapping

from local.aws_json import Json

_COUNT = "DesiredInstanceCount"
_WEIGHT = "DesiredWeight"
DEFAULT_WEIGHT = 1.0
DEFAULT_COUNT = 1


def container_of(model: Json) -> Json:
    """Give the one container of a model."""
    container: Json = model.get("PrimaryContainer") or model["Containers"][0]
    return container


def new_deployment(config: Json, models: Mapping[str, Json]) -> Json:
    """Give a deployment with the config's initial weights and counts, and copies of all it needs."""
    return {
        "config": config,
        "containers": {
            variant["VariantName"]: container_of(models[variant["ModelName"]])
            for variant in config["ProductionVariants"]
        },
        "weights": {
            variant["VariantName"]: variant.get("InitialVariantWeight", DEFAULT_WEIGHT)
            for variant in config["ProductionVariants"]
        },
        "counts": {
            variant["VariantName"]: variant.get("InitialInstanceCount", DEFAULT_COUNT)
            for variant in config["ProductionVariants"]
        },
        # by variant: {"path", "sha256"} of what was fetched
        "archives": {},
    }


def retain(deployment: Json, endpoint: Json, *, exclude: list[Json]) -> None:
    """Keep weights and counts of variants that exist already, but those excluded (RetainAllVariantProperties)."""
    excluded = {item["VariantPropertyType"] for item in exclude}
    for variant in endpoint.get("ProductionVariants", ()):
        name = variant["VariantName"]
        if name not in deployment["weights"]:
            continue
        if _WEIGHT not in excluded:
            deployment["weights"][name] = variant[_WEIGHT]
        if _COUNT not in excluded:
            deployment["counts"][name] = variant[_COUNT]


def describe_variants(deployment: Json, *, now: float) -> list[Json]:
    """Give the variants as DescribeEndpoint shows them once the deployment is done."""
    described = []
    for variant in deployment["config"]["ProductionVariants"]:
        name = variant["VariantName"]
        image = deployment["containers"][name].get("Image")
        summary: Json = {
            "VariantName": name,
            "CurrentWeight": deployment["weights"][name],
            "DesiredWeight": deployment["weights"][name],
            "CurrentInstanceCount": deployment["counts"][name],
            "DesiredInstanceCount": deployment["counts"][name],
        }
        if image is not None:
            summary["DeployedImages"] = [{"SpecifiedImage": image, "ResolvedImage": image, "ResolutionTime": now}]
        summary |= {key: variant[key] for key in ("RoutingConfig", "ManagedInstanceScaling") if key in variant}
        described.append(summary)
    return described


def apply_changes(endpoint: Json, changes: list[Json]) -> None:
    """Write desired weights and counts (UpdateEndpointWeightsAndCapacities) into the variants."""
    by_name = {change["VariantName"]: change for change in changes}
    for variant in endpoint["ProductionVariants"]:
        change = by_name.get(variant["VariantName"], {})
        variant |= {key: change[key] for key in (_WEIGHT, _COUNT) if key in change}


def settle(endpoint: Json) -> None:
    """Make current what is desired."""
    for variant in endpoint["ProductionVariants"]:
        variant["CurrentWeight"] = variant[_WEIGHT]
        variant["CurrentInstanceCount"] = variant[_COUNT]


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
