"""Keys that AWS has and these specs do not, with the reason: what would otherwise be just "an unknown key"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a key or a value is not there: what to write instead, and where AWS says so."""

    fix: str
    source: str


_MANAGED = Refusal(
    fix="leave it out: managed scaling is for inference components alone, and mode components sets it",
    source="InferenceComponent endpoints; hashicorp/terraform-provider-aws PR #45926",
)
_SHADOW = Refusal(
    fix="use [models.NAME.shadow]: beside a shadow only one production variant may stand, so it has its own endpoint",
    source="AWS shadow-tests-create",
)
_SERVERLESS = Refusal(
    fix="choose realtime or async: serverless takes no GPU, VPC, network isolation, data capture or second variant",
    source="AWS serverless-endpoints, feature exclusions",
)
_NAMED = Refusal(
    fix="leave it out: a named config or model cannot be replaced, so that no update would reach the endpoint",
    source="CloudFormation, custom-named resources",
)
_WEIGHT = Refusal(
    fix="leave it out: weights belong to the release after the first deploy (docs/adr/0001)",
    source="AWS API_UpdateEndpoint, RetainAllVariantProperties",
)

_REFUSED: Mapping[str, Refusal] = {
    r"hosting\.managed_instance_scaling": _MANAGED,
    r"models\[.*\]\.versions\.(?!a$|b$)\w+": _SHADOW,
    r"models\[.*\]\.shadows?_version": _SHADOW,
    r"hosting\.shadow": _SHADOW,
    r"hosting\.serverless": _SERVERLESS,
    r"(hosting\.|models\[.*\]\.)(endpoint|model|config|endpoint_config)_name": _NAMED,
    r"(hosting\.|models\[.*\]\.)weights?": _WEIGHT,
    r"hosting\.accelerator_type": Refusal(
        fix="leave it out: Elastic Inference has ended", source="AWS API_ProductionVariant, AcceleratorType"
    ),
    r"hosting\.exclude_retained_variant_properties": Refusal(
        fix="leave it out: a redeploy keeps weights and counts, and DataCaptureConfig is not supported there",
        source="AWS API_VariantProperty",
    ),
}
_SERVERLESS_VALUE = ("hosting.mode", "'serverless'")


def refusal(key: str, got: str) -> Refusal | None:
    """Give the reason for a key, or for a value of a known key; None where there is none but that it is unknown."""
    if (key, got) == _SERVERLESS_VALUE:
        return _SERVERLESS
    return next((found for pattern, found in _REFUSED.items() if re.fullmatch(pattern, key)), None)
