"""Whether a deploy would give an endpoint a new config: then SageMaker replaces its fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from serving.preflight.live import Live
from serving.preflight.planned import Planned, PlannedEndpoint

_MAKES_A_CONFIG = {"AWS::SageMaker::Model", "AWS::SageMaker::EndpointConfig"}


def redeploys(planned: Planned, live: Live, endpoint: PlannedEndpoint) -> bool:
    """Say whether config or models of a live endpoint's stack change: all but their tags is create-only."""
    stack, held = planned.stack(endpoint.stack), live.stack(endpoint.stack)
    if stack is None or held is None or not held.template:
        return live.endpoint(endpoint.name) is not None
    return _configs(stack.template) != _configs(held.template)


def _configs(template: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        logical_id: {name: value for name, value in entry.get("Properties", {}).items() if name != "Tags"}
        for logical_id, entry in template.get("Resources", {}).items()
        if entry["Type"] in _MAKES_A_CONFIG
    }
