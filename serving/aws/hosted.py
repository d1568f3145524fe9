"""What a live endpoint serves: its variants, the config they came from, and the archive and image each holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from serving.preflight.live import LiveEndpoint, LiveVariant
from serving.preflight.planned import slot_of

if TYPE_CHECKING:
    from mypy_boto3_sagemaker import SageMakerClient


def instances_of(sagemaker: SageMakerClient, name: str) -> dict[str, int]:
    """Count an endpoint's instances by type, those that are asked for already included; reads no model."""
    found = sagemaker.describe_endpoint(EndpointName=name)
    config = sagemaker.describe_endpoint_config(EndpointConfigName=found["EndpointConfigName"])
    types = {variant["VariantName"]: variant.get("InstanceType") for variant in config["ProductionVariants"]}
    used: Counter[str] = Counter()
    for variant in found.get("ProductionVariants", []):
        kind = types.get(variant["VariantName"])
        if kind is not None:  # a serverless variant has none
            used[kind] += max(variant.get("CurrentInstanceCount", 0), variant.get("DesiredInstanceCount", 0))
    return dict(used)


def read_endpoint(sagemaker: SageMakerClient, name: str) -> LiveEndpoint:
    """Read an endpoint, its config and its models; lets botocore's errors through."""
    found = sagemaker.describe_endpoint(EndpointName=name)
    config = sagemaker.describe_endpoint_config(EndpointConfigName=found["EndpointConfigName"])
    configured = {
        variant["VariantName"]: variant
        for variant in [*config["ProductionVariants"], *config.get("ShadowProductionVariants", [])]
    }
    live = {
        variant["VariantName"]: variant
        for variant in [*found.get("ProductionVariants", []), *found.get("ShadowProductionVariants", [])]
    }
    return LiveEndpoint(
        name=name,
        status=found["EndpointStatus"],
        config=found["EndpointConfigName"],
        reason=found.get("FailureReason", ""),
        components=tuple(_components(sagemaker, name)) if _without_models(configured.values()) else (),
        variants=tuple(
            _variant(sagemaker, configured[key], variant) for key, variant in live.items() if key in configured
        ),
    )


def _variant(sagemaker: SageMakerClient, configured: Mapping[str, Any], live: Mapping[str, Any]) -> LiveVariant:
    model = configured.get("ModelName")
    container = _container(sagemaker, str(model)) if model is not None else {}
    weight, count = live.get("CurrentWeight", 0.0), live.get("CurrentInstanceCount", 0)
    return LiveVariant(
        name=str(configured["VariantName"]),
        instance_type=configured.get("InstanceType"),
        weight=weight,
        desired_weight=live.get("DesiredWeight", weight),
        count=count,
        desired_count=live.get("DesiredInstanceCount", count),
        image=container.get("Image"),
        archive=archive_of(container),
    )


def _without_models(variants: Iterable[Mapping[str, Any]]) -> bool:
    return any("ModelName" not in variant for variant in variants)


def _components(sagemaker: SageMakerClient, endpoint: str) -> Iterator[LiveVariant]:
    pages = sagemaker.get_paginator("list_inference_components").paginate(EndpointNameEquals=endpoint)
    for name in sorted(found["InferenceComponentName"] for page in pages for found in page["InferenceComponents"]):
        described = sagemaker.describe_inference_component(InferenceComponentName=name)
        copies = described.get("RuntimeConfig", {})
        model = described.get("Specification", {}).get("ModelName")
        container = _container(sagemaker, model) if model is not None else {}
        yield LiveVariant(
            name=slot_of(name, endpoint),
            count=copies.get("CurrentCopyCount", 0),
            desired_count=copies.get("DesiredCopyCount", 0),
            image=container.get("Image"),
            archive=archive_of(container),
        )


def _container(sagemaker: SageMakerClient, model: str) -> Mapping[str, Any]:
    found: Any = sagemaker.describe_model(ModelName=model)
    container: Mapping[str, Any] = found.get("PrimaryContainer") or found["Containers"][0]
    return container


def archive_of(container: Mapping[str, Any]) -> str | None:
    """Give the S3 URI of what a container loads; None when it loads nothing."""
    source = container.get("ModelDataSource", {}).get("S3DataSource", {}).get("S3Uri")
    uri = container.get("ModelDataUrl", source)
    return str(uri) if uri is not None else None
