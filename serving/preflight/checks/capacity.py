"""Whether the account's quotas hold what the stage needs, also while two fleets stand side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from serving.preflight.checks.check import Comparison
from serving.preflight.finding import Finding, unverified
from serving.preflight.live import Unread
from serving.preflight.planned import PlannedEndpoint, PlannedVariant
from serving.preflight.redeploy import redeploys
from serving.preflight.templates import Resource

_FUNCTION = "AWS::Lambda::Function"
_LEFT_FOR_OTHERS = 100
_SOURCE = "SageMaker guide, Blue/green deployments: both fleets run for a while"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Instances of one type: during this deploy at today's counts, and during one while all is scaled out."""

    now: int
    at_most: int


def needs(at: Comparison) -> dict[str, Need]:
    """Give what the stage needs by instance type, other endpoints of the account included."""
    now: Counter[str] = Counter()
    at_most: Counter[str] = Counter()
    for endpoint in at.planned.endpoints:
        for variant in endpoint.variants:
            if variant.instance_type is not None:
                today, peak = _counts(at, endpoint, variant)
                now[variant.instance_type] += today
                at_most[variant.instance_type] += peak
    elsewhere = {} if isinstance(at.live.elsewhere, Unread) else at.live.elsewhere
    return {
        kind: Need(now=now[kind] + elsewhere.get(kind, 0), at_most=at_most[kind] + elsewhere.get(kind, 0))
        for kind in sorted(at_most)
    }


def _counts(at: Comparison, endpoint: PlannedEndpoint, variant: PlannedVariant) -> tuple[int, int]:
    live = at.live.endpoint(endpoint.name)
    held = live.variant(variant.name) if live is not None else None
    today = max(held.count, held.desired_count) if held is not None else variant.count
    target = next(
        (found for found in at.planned.targets if found.resource == f"endpoint/{endpoint.name}/variant/{variant.name}"),
        None,
    )
    most = max(today, target.maximum if target is not None else variant.maximum or variant.count)
    fleets = 1 if endpoint.rolling else 2
    return today * (fleets if live is not None and redeploys(at.planned, at.live, endpoint) else 1), most * fleets


def quotas(at: Comparison) -> Iterator[Finding]:
    """Every instance type's quota holds both fleets of a deploy, now and when all is scaled out."""
    if isinstance(at.live.quotas, Unread):
        wanted = ", ".join(f"{need.at_most} {kind}" for kind, need in needs(at).items())
        fix = f"look at them in Service Quotas: {wanted} for endpoint usage, both fleets at max_count"
        yield unverified("quota", "Service Quotas", at.live.quotas.why, fix=fix)
        return
    if isinstance(at.live.elsewhere, Unread):
        fix = "allow sagemaker:ListEndpoints and DescribeEndpoint"
        yield unverified("quota", "other endpoints of the account", at.live.elsewhere.why, fix=fix)
    for kind, need in needs(at).items():
        quota = at.live.quotas.get(kind)
        what = f'"{kind} for endpoint usage"'
        if quota is None:
            fix = f"look it up: {need.at_most} are needed at most, both fleets"
            yield unverified("quota", what, "Service Quotas lists none of that name", fix=fix)
        elif need.now > quota:
            yield _short("error", what, quota, f"{need.now} for this deploy, both fleets counted", need)
        elif need.at_most > quota:
            yield _short("warning", what, quota, f"{need.at_most} for a deploy while all slots are at max_count", need)


def _short(level: str, what: str, quota: int, wanted: str, need: Need) -> Finding:
    return Finding(
        level="error" if level == "error" else "warning",
        check="quota",
        what=what,
        got=f"{quota}",
        allowed=wanted,
        fix=f"ask for {need.at_most} in Service Quotas (docs/deploy.md), or lower min_count and max_count",
        source=_SOURCE,
    )


def concurrency(at: Comparison) -> Iterator[Finding]:
    """What new functions reserve leaves other functions what Lambda keeps for them: 100, or all of a lower limit."""
    wanted = sum(
        int(resource.properties.get("ReservedConcurrentExecutions", 0))
        for stack in at.planned.stacks
        for resource in stack.resources(_FUNCTION)
        if not _is_live(at, resource)
    )
    found = at.live.concurrency
    if wanted == 0 or found is None:
        return
    if isinstance(found, Unread):
        yield unverified("concurrency", "Lambda", found.why, fix="allow lambda:GetAccountSettings")
        return
    kept = min(_LEFT_FOR_OTHERS, found.limit)
    if found.unreserved - wanted < kept:
        yield Finding(
            level="error",
            check="concurrency",
            what="Lambda executions at once that nothing has reserved",
            got=f"{found.unreserved} of {found.limit}",
            allowed=f"{kept + wanted}: {wanted} to reserve, and {kept} that Lambda keeps for other functions",
            fix='ask for more in Service Quotas: lambda, "Concurrent executions"',
            source="Lambda guide, configuration-concurrency",
        )


def _is_live(at: Comparison, resource: Resource) -> bool:
    stack = at.live.stack(resource.stack)
    return stack is not None and resource.id in stack.physical
