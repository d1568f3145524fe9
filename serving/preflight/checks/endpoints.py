"""Whether each endpoint can be updated now, and serves what CloudFormation believes it serves."""

from __future__ import annotations

from collections.abc import Iterator

from serving.preflight.checks.check import Comparison
from serving.preflight.finding import Finding, unverified
from serving.preflight.live import LiveEndpoint, Unread
from serving.preflight.planned import PlannedEndpoint
from serving.preflight.redeploy import redeploys

_BROKEN = {"Failed", "UpdateRollbackFailed", "OutOfService"}


def unread(at: Comparison) -> Iterator[Finding]:
    """Every endpoint could be read."""
    for endpoint in at.planned.endpoints:
        live = at.live.endpoints.get(endpoint.name)
        if isinstance(live, Unread):
            fix = "allow sagemaker:DescribeEndpoint, DescribeEndpointConfig and DescribeModel"
            yield unverified("endpoint", endpoint.name, live.why, fix=fix)


def statuses(at: Comparison) -> Iterator[Finding]:
    """An endpoint that a deploy would update is in service."""
    for endpoint in at.planned.endpoints:
        live = at.live.endpoint(endpoint.name)
        if live is None or live.status == "InService":
            continue
        broken, changes = live.status in _BROKEN, redeploys(at.planned, at.live, endpoint)
        said = f"{live.status}{f' ({live.reason})' if live.reason else ''}"
        yield Finding(
            level="error" if broken or changes else "warning",
            check="endpoint",
            what=endpoint.name,
            got=said,
            allowed="InService",
            fix="delete its stack and deploy anew: an endpoint that failed takes no update"
            if broken
            else "wait: UpdateEndpoint is refused until then",
            source="SageMaker API reference, UpdateEndpoint",
        )


def silent_rollbacks(at: Comparison) -> Iterator[Finding]:
    """An endpoint serves the config that its stack holds: an update that alarms rolled back ends InService too."""
    for endpoint in at.planned.endpoints:
        live, held = at.live.endpoint(endpoint.name), _config_of_stack(at, endpoint)
        if live is None or held is None or live.status != "InService" or live.config.lower() == held.lower():
            continue  # SageMaker writes names in small letters into ARNs, and a stack holds the ARN
        yield _rolled_back(at, endpoint, live, held)


def _rolled_back(at: Comparison, endpoint: PlannedEndpoint, live: LiveEndpoint, held: str) -> Finding:
    mended = redeploys(at.planned, at.live, endpoint)
    again = (
        f"aws sagemaker update-endpoint --endpoint-name {endpoint.name} --endpoint-config-name {held} "
        f"--retain-all-variant-properties"
    )
    return Finding(
        level="warning" if mended else "error",
        check="silent rollback",
        what=endpoint.name,
        got=f"config {live.config}",
        allowed=f"{held}, which stack {endpoint.stack} holds",
        fix="its last update was rolled back or somebody updated it by hand: find out why; this deploy moves it on"
        if mended
        else f"its last update was rolled back or somebody updated it by hand, and CloudFormation sees no change: "
        f"put a version that works into the stage file, or, once the cause is gone, {again}",
        source="SageMaker API reference, DescribeEndpoint: InService after RollingBack",
    )


def _config_of_stack(at: Comparison, endpoint: PlannedEndpoint) -> str | None:
    stack = at.live.stack(endpoint.stack)
    physical = stack.physical.get(endpoint.config_id) if stack is not None else None
    return physical.rpartition("/")[2] if physical is not None else None
