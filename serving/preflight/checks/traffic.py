"""What a deploy would do to live traffic: reset weights and counts, swap a busy slot, cut capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from serving.preflight.checks.check import Comparison
from serving.preflight.finding import Finding, unverified
from serving.preflight.live import LiveEndpoint, LiveTarget, LiveVariant, Unread
from serving.preflight.planned import VARIANT_DIMENSION, PlannedEndpoint, PlannedTarget, PlannedVariant
from serving.preflight.redeploy import redeploys
from serving.preflight.templates import resources_of
from serving.release.state import ReleaseRecord

_RETAIN_SOURCE = "SageMaker API reference, UpdateEndpoint"


def busy_slots(endpoint: LiveEndpoint, release: ReleaseRecord | None) -> Mapping[str, str]:
    """Give the variants that carry traffic, each with why one knows."""
    by_weight = {
        variant.name: f"weight {max(variant.weight, variant.desired_weight):g}"
        for variant in endpoint.variants
        if max(variant.weight, variant.desired_weight) > 0
    }
    if release is None:
        # weights do not apply to components: without a record all traffic goes to slot a
        return by_weight if not endpoint.components else {"a": "no release: all traffic is slot a's"}
    by_weight = {} if endpoint.components else by_weight
    recorded = {release.production: f"production of release {release.release_id}"}
    if not release.terminal:
        recorded[release.challenger] = f"challenger of release {release.release_id} ({release.state.value})"
    return by_weight | recorded


def retention(at: Comparison) -> Iterator[Finding]:
    """Every endpoint keeps weights and counts through an update."""
    for endpoint in at.planned.endpoints:
        if not endpoint.retains:
            yield _reset(endpoint, "no RetainAllVariantProperties", at.live.endpoint(endpoint.name))
        elif endpoint.excluded:
            told = f"{', '.join(endpoint.excluded)} excluded from what is kept"
            yield _reset(endpoint, told, at.live.endpoint(endpoint.name))


def _reset(endpoint: PlannedEndpoint, got: str, live: LiveEndpoint | None) -> Finding:
    now = (
        ", ".join(f"{at.name} weight {at.desired_weight:g} count {at.desired_count}" for at in live.variants)
        if live
        else ""
    )
    return Finding(
        level="error",
        check="reset",
        what=endpoint.name,
        got=got,
        allowed="RetainAllVariantProperties: true and nothing excluded",
        fix=f"mend the template: an update goes back to the initial values{f' from {now}' if now else ''}",
        source=_RETAIN_SOURCE,
    )


def slot_names(at: Comparison) -> Iterator[Finding]:
    """A live endpoint keeps the names of its variants: guardrails, targets and kept weights go by them."""
    for endpoint in at.planned.endpoints:
        live = at.live.endpoint(endpoint.name)
        if live is None or not live.variants:
            continue
        has, wants = {variant.name for variant in live.variants}, {variant.name for variant in endpoint.variants}
        if not has <= wants:
            yield Finding(
                level="error",
                check="slot",
                what=endpoint.name,
                got=f"variants {', '.join(sorted(wants))}",
                allowed=f"those that serve now: {', '.join(sorted(has))}",
                fix="keep the names; another hosting mode wants another endpoint beside this one",
                source="SageMaker guide, deployment-guardrails-exclusions",
            )


def slot_contents(at: Comparison) -> Iterator[Finding]:
    """A slot that carries traffic keeps its version; only its container may change, and that is said."""
    for endpoint in at.planned.endpoints:
        live = at.live.endpoint(endpoint.name)
        if live is None:
            continue
        for name, why in sorted(busy_slots(live, at.live.release(endpoint.name)).items()):
            planned, held = endpoint.slot(name), live.slot(name)
            if planned is not None and held is not None:
                yield from _content(at, endpoint, planned, held, why)


def _content(
    at: Comparison, endpoint: PlannedEndpoint, planned: PlannedVariant, held: LiveVariant, why: str
) -> Iterator[Finding]:
    what = f"{endpoint.name} slot {planned.name}"
    if held.archive is None and planned.archive is not None:
        fix = "allow sagemaker:DescribeEndpointConfig and DescribeModel"
        yield unverified("slot", what, "what it holds could not be read", fix=fix)
    elif planned.archive != held.archive:
        yield _swapped(at, endpoint, planned, held, why)
    elif planned.image != held.image and None not in {planned.image, held.image}:
        yield Finding(
            level="warning",
            check="slot",
            what=what,
            got=f"image {planned.image} in place of {held.image}, while it carries traffic ({why})",
            allowed="the same version in a new container, if that is meant",
            fix="the blue/green canary with its alarms is the only guard: deploy while somebody watches",
        )


def _swapped(
    at: Comparison, endpoint: PlannedEndpoint, planned: PlannedVariant, held: LiveVariant, why: str
) -> Finding:
    now, then = at.facts.told(held.archive), at.facts.told(planned.archive)
    model, other = at.facts.model_of(endpoint.name), "b" if planned.name == "a" else "a"
    releasable = {planned.name, other} == {"a", "b"} and endpoint.slot(other) is not None
    return Finding(
        level="error" if releasable else "warning",
        check="slot",
        what=f"{endpoint.name} slot {planned.name}",
        got=f"{then} in place of {now}, while it carries traffic ({why})",
        allowed=f"{now} until its traffic has moved" if releasable else "a switch for all requests, if that is meant",
        fix=f"in {at.facts.file} under [models.{model}] leave slot {planned.name} as it is, put {then} into slot "
        f"{other} if that one is idle, deploy, then streamhub release start moves the traffic by evidence"
        if releasable
        else "it has no second slot to release into: its deployment's alarms are the only guard",
        source="docs/adr/0002",
    )


def minimums(at: Comparison) -> Iterator[Finding]:
    """No scalable target's new bounds cut or force capacity at once."""
    if isinstance(at.live.targets, Unread):
        fix = "allow application-autoscaling:DescribeScalableTargets"
        yield unverified("scaling", "scalable targets", at.live.targets.why, fix=fix)
        return
    for target in at.planned.targets:
        live = at.live.targets.get(target.resource)
        if live is not None and _touched(at, target):
            yield from _bounds(at, target, live)


def _bounds(at: Comparison, target: PlannedTarget, live: LiveTarget) -> Iterator[Finding]:
    if target.minimum < live.minimum:
        release = _release_of(at, target.resource)
        moving = release is not None and not release.terminal
        raised = (
            f"release {release.release_id} raised it" if moving and release is not None else "it was raised by hand"
        )
        yield Finding(
            level="error",
            check="minimum",
            what=target.resource,
            got=f"min {target.minimum} in place of {live.minimum}",
            allowed=f"at least {live.minimum}: {raised}",
            fix="end the release first (it gives the minimum back), or write the higher min_count into the stage file",
            source="Application Auto Scaling API reference, RegisterScalableTarget",
        )
    count = _count_of(at, target)
    if count is None or target.minimum <= count <= target.maximum:
        return
    cut = count > target.maximum
    yield Finding(
        level="error" if cut else "warning",
        check="scaling",
        what=target.resource,
        got=f"{target.minimum} to {target.maximum} while {count} are wanted",
        allowed="bounds around the count",
        fix="raise max_count: registering them takes the difference away at once"
        if cut
        else "registering them starts the difference at once: mind quota and cost",
        source="Application Auto Scaling API reference, RegisterScalableTarget",
    )


def releases(at: Comparison) -> Iterator[Finding]:
    """An endpoint whose release is moving traffic is not updated unawares."""
    for endpoint in at.planned.endpoints:
        record = at.live.releases.get(endpoint.name)
        if isinstance(record, Unread):
            yield unverified("release", endpoint.name, record.why, fix="allow dynamodb:GetItem on the state table")
        elif record is not None and not record.terminal and redeploys(at.planned, at.live, endpoint):
            yield Finding(
                level="warning",
                check="release",
                what=endpoint.name,
                got=f"release {record.release_id} is {record.state.value} at {record.share:.0%}",
                allowed="a deploy between releases",
                fix="it goes on, but its weights wait until the endpoint is InService again: streamhub release pause "
                f"{record.model}, or wait for its end",
                source="docs/adr/0001",
            )


def _touched(at: Comparison, target: PlannedTarget) -> bool:
    """Say whether the deploy registers the target: CloudFormation leaves alone what its template does not change."""
    held = at.live.stack(target.stack)
    if held is None or not held.template:
        return True
    old = next((found for found in resources_of(target.stack, held.template) if found.id == target.id), None)
    if old is None:
        return True
    bounds = (int(old.properties["MinCapacity"]), int(old.properties["MaxCapacity"]))
    return bounds != (target.minimum, target.maximum)


def _count_of(at: Comparison, target: PlannedTarget) -> int | None:
    if target.dimension != VARIANT_DIMENSION:
        return None
    _, endpoint, _, name = target.resource.split("/")
    live = at.live.endpoint(endpoint)
    variant = live.variant(name) if live is not None else None
    return variant.desired_count if variant is not None else None


def _release_of(at: Comparison, resource: str) -> ReleaseRecord | None:
    parts = resource.split("/")
    return at.live.release(parts[1]) if parts[0] == "endpoint" else None
