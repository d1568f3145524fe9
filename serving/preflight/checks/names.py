"""Whether the names that the stage wants are free, or its own already."""

from __future__ import annotations

from collections.abc import Iterator

from serving.preflight.checks.check import Comparison
from serving.preflight.finding import Finding, unverified
from serving.preflight.live import Live, Unread
from serving.preflight.planned import Planned
from serving.preflight.templates import Resource


def new_names(planned: Planned, live: Live) -> dict[tuple[str, str], Resource]:
    """Give the named resources that a deploy would make: those that their own live stack does not hold yet."""
    return {key: resource for key, resource in planned.names.items() if not _held(live, resource)}


def _held(live: Live, resource: Resource) -> bool:
    stack = live.stack(resource.stack)
    return stack is not None and resource.id in stack.physical


def names(at: Comparison) -> Iterator[Finding]:
    """No name of a new resource is taken."""
    for (kind, name), resource in sorted(new_names(at.planned, at.live).items()):
        owner = at.live.owners.get((kind, name))
        if owner is None:
            continue
        what = f"{kind} {name}"
        if isinstance(owner, Unread):
            yield unverified("name", what, owner.why, fix="look whether it exists")
        else:
            yield Finding(
                level="error",
                check="name",
                what=what,
                got=f"taken by stack {owner}" if owner else "taken, by no stack of this account and region",
                allowed=f"free: stack {resource.stack} would make it",
                fix="deploy the other stack without it first"
                if owner
                else "kept from an earlier stage or made by hand: cdk import it into the stack, or delete it",
                source="CloudFormation guide, Name type",
            )
