"""Whether a deploy would give an endpoint a new config: then SageMaker replaces its fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from serving.preflight.live import Live
from serving.preflight.planned import Planned, PlannedEndpoint
from serving.preflight.templates import referenced


def redeploys(planned: Planned, live: Live, endpoint: PlannedEndpoint) -> bool:
    """Say whether a live endpoint's config, or a model that it names, changes: all but their tags is create-only."""
    stack, held = planned.stack(endpoint.stack), live.stack(endpoint.stack)
    if stack is None or held is None or not held.template:
        return live.endpoint(endpoint.name) is not None
    return _config(stack.template, endpoint.config_id) != _config(held.template, endpoint.config_id)


def _config(template: Mapping[str, Any], config_id: str) -> list[dict[str, Any]]:
    config = _properties(template, config_id)
    variants = [*config.get("ProductionVariants", ()), *config.get("ShadowProductionVariants", ())]
    return [config, *(_properties(template, referenced(variant.get("ModelName")) or "") for variant in variants)]


def _properties(template: Mapping[str, Any], logical_id: str) -> dict[str, Any]:
    entry = template.get("Resources", {}).get(logical_id, {})
    return {name: value for name, value in entry.get("Properties", {}).items() if name != "Tags"}
