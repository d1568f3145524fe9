"""Whether CloudFormation would take an update of the stacks as they stand, and whether they are what they say."""

from __future__ import annotations

from collections.abc import Iterator

from serving.preflight.checks.check import Comparison
from serving.preflight.exports import lost_exports, missing_outputs
from serving.preflight.finding import Finding, unverified
from serving.preflight.live import LiveStack, Unread
from serving.preflight.stateful import lost_resources

_STUCK = {
    "UPDATE_ROLLBACK_FAILED": "aws cloudformation continue-update-rollback --stack-name {name}, then read its events",
    "DELETE_FAILED": "aws cloudformation delete-stack --stack-name {name}, once what holds it is gone (its events say)",
    "ROLLBACK_FAILED": "aws cloudformation delete-stack --stack-name {name}: its first creation failed",
}
_HALF_MADE = {
    "ROLLBACK_COMPLETE": "its first creation failed: the deploy deletes it and begins anew",
    "REVIEW_IN_PROGRESS": "somebody prepared a change set and did not run it: the deploy makes its own",
}


def states(at: Comparison) -> Iterator[Finding]:
    """Every stack can be updated, and none was rolled back without anybody looking."""
    if isinstance(at.live.stacks, Unread):
        fix = "allow cloudformation:DescribeStacks; without it hardly anything here is known"
        yield unverified("stack", "all stacks", at.live.stacks.why, fix=fix)
        return
    for planned in at.planned.stacks:
        live = at.live.stack(planned.name)
        if live is not None:
            yield from _state(live)


def _state(live: LiveStack) -> Iterator[Finding]:
    status = live.status
    said = f"{status}{f' ({live.reason})' if live.reason else ''}"
    if status in _STUCK:
        fix = _STUCK[status].format(name=live.name)
        yield _of(live, "error", said, "a stack that can be updated", fix)
    elif status in _HALF_MADE and status == "ROLLBACK_COMPLETE" and live.protected:
        fix = f"aws cloudformation delete-stack --stack-name {live.name}, after lifting its termination protection"
        yield _of(live, "error", said, "a stack that can be updated", fix)
    elif status in _HALF_MADE:
        yield _of(live, "warning", said, "a stack that was made", _HALF_MADE[status])
    elif status.endswith("_IN_PROGRESS"):
        yield _of(live, "error", said, "a stack at rest", "wait for it; two deploys of one stack cannot overlap")
    elif status == "UPDATE_ROLLBACK_COMPLETE":
        fix = (
            f"read why first: aws cloudformation describe-stack-events --stack-name {live.name}; what is live is older "
            f"than the last deploy meant"
        )
        yield _of(live, "warning", said, "a last update that was kept", fix)


def _of(live: LiveStack, level: str, got: str, allowed: str, fix: str) -> Finding:
    return Finding(
        level="error" if level == "error" else "warning",
        check="stack",
        what=live.name,
        got=got,
        allowed=allowed,
        fix=fix,
        source="CloudFormation guide, Stack status codes",
    )


def replacements(at: Comparison) -> Iterator[Finding]:
    """No resource that holds data or an address is replaced or deleted."""
    if isinstance(at.live.stacks, Unread):
        return
    for planned in at.planned.stacks:
        live = at.live.stack(planned.name)
        if live is not None and live.template:
            yield from lost_resources(planned.name, before=live.template, after=planned.template)


def exports(at: Comparison) -> Iterator[Finding]:
    """No stack loses a value that another one reads: an export in use, or an output that the templates name."""
    planned = {stack.name: stack.template for stack in at.planned.stacks}
    yield from missing_outputs(planned)
    if isinstance(at.live.stacks, Unread):
        return
    live = {name: stack.template for name, stack in at.live.stacks.items() if stack.template}
    yield from lost_exports(before=live, after=planned)


def left_behind(at: Comparison) -> Iterator[Finding]:
    """No live stack of the stage is missing from the templates: a deploy never deletes stacks."""
    if isinstance(at.live.stacks, Unread):
        return
    prefix = f"streamhub-{at.planned.stage}-"
    planned = {stack.name for stack in at.planned.stacks}
    for name in sorted(at.live.stacks):
        if name.startswith(prefix) and name not in planned:
            yield Finding(
                level="warning",
                check="stack",
                what=name,
                got="live, and in no template",
                allowed=f"the stacks of {at.facts.file}",
                fix=f"it stays and costs: aws cloudformation delete-stack --stack-name {name} once nothing needs it",
            )
