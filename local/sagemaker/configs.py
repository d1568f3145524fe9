"""What makes an endpoint config one that SageMaker takes; all that is wrong with it at once.

Source: SageMaker API reference, CreateEndpointConfig and ProductionVariant; guide, *shadow-tests-create*.
"""

from __future__ import annotations

from collections.abc import Iterator

from local.aws_json import Json, ValidationError
from local.sagemaker.deployment import all_variants
from local.sagemaker.workers import RANDOM, STRATEGIES


def refuse_config(config: Json) -> None:
    """Raise ValidationError unless the local SageMaker can host the config."""
    found = [*_unserved(config), *_routing(config), *_names(config), *_shadows(config), *_components(config)]
    if found:
        raise ValidationError("; ".join(found))


def hosts_components(config: Json) -> bool:
    """Say whether the config is for inference components: its variants name no model."""
    variants = config.get("ProductionVariants", ())
    return bool(variants) and all("ModelName" not in variant for variant in variants)


def _unserved(config: Json) -> Iterator[str]:
    if "ExplainerConfig" in config:
        yield "ExplainerConfig: not in the local SageMaker; leave it out"
    for variant in all_variants(config):
        if "ServerlessConfig" in variant:
            yield f"variant {variant['VariantName']}: ServerlessConfig is not in the local SageMaker; leave it out"


def _routing(config: Json) -> Iterator[str]:
    for variant in all_variants(config):
        strategy = variant.get("RoutingConfig", {}).get("RoutingStrategy", RANDOM)
        if strategy not in STRATEGIES:
            yield (
                f"variant {variant['VariantName']}: RoutingStrategy: got {strategy}; the local SageMaker has "
                f"{', '.join(STRATEGIES)}"
            )


def _names(config: Json) -> Iterator[str]:
    names = [variant["VariantName"] for variant in all_variants(config)]
    if len(set(names)) != len(names):
        yield f"Duplicate variant names: {', '.join(names)}; each must be unique"


def _shadows(config: Json) -> Iterator[str]:
    shadows = config.get("ShadowProductionVariants", ())
    if shadows and (len(shadows), len(config["ProductionVariants"])) != (1, 1):
        yield (
            f"ShadowProductionVariants: got {len(config['ProductionVariants'])} production and {len(shadows)} shadow "
            "variants; allowed: one of each"
        )
    if shadows and "AsyncInferenceConfig" in config:
        yield "ShadowProductionVariants: not with AsyncInferenceConfig; leave one out"
    for shadow in shadows:
        if "ModelName" not in shadow:
            yield f"variant {shadow['VariantName']}: ModelName is required of a shadow variant"


def _components(config: Json) -> Iterator[str]:
    variants = config["ProductionVariants"]
    without = [variant["VariantName"] for variant in variants if "ModelName" not in variant]
    if without and len(without) < len(variants):
        yield f"variants {', '.join(without)}: ModelName is missing; either all variants name a model or none does"
    if without and "ExecutionRoleArn" not in config:
        yield "ExecutionRoleArn: required of an endpoint config whose variants name no model"
    if without and "AsyncInferenceConfig" in config:
        yield "AsyncInferenceConfig: not for an endpoint of inference components; leave it out"
    for variant in variants:
        if "ModelName" in variant and variant.get("ManagedInstanceScaling", {}).get("Status") == "ENABLED":
            yield (
                f"variant {variant['VariantName']}: ManagedInstanceScaling is only supported for inference component "
                "endpoints"
            )
