"""All checks, in the order in which a person would mend what they find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from serving.preflight.checks import account, artifacts, capacity, endpoints, instances, names, stacks, traffic
from serving.preflight.checks.check import Check, Comparison
from serving.preflight.exports import lost_exports, missing_outputs
from serving.preflight.finding import Finding
from serving.preflight.live import Live
from serving.preflight.planned import Planned, planned_of
from serving.preflight.stage_facts import StageFacts
from serving.preflight.stateful import lost_resources
from serving.preflight.templates import PlannedStack

OF_THE_FILES: Final[tuple[Check, ...]] = (account.account, artifacts.freshness, traffic.retention)
"""Those that need to know of an account no more than which it is."""

CHECKS: Final[tuple[Check, ...]] = (
    account.account,
    account.bootstrap,
    account.permissions,
    stacks.states,
    stacks.left_behind,
    artifacts.freshness,
    names.names,
    artifacts.images,
    artifacts.archives,
    artifacts.approvals,
    capacity.quotas,
    capacity.concurrency,
    endpoints.unread,
    endpoints.statuses,
    endpoints.silent_rollbacks,
    traffic.retention,
    traffic.slot_names,
    traffic.slot_contents,
    traffic.minimums,
    traffic.releases,
    instances.instance_types,
    stacks.exports,
    stacks.replacements,
)


def compare(planned: Planned, live: Live, facts: StageFacts) -> tuple[Finding, ...]:
    """Say all that a deploy of the plan would break in the account, and all that nobody could read.

    Of another account than the plan's, or an unknown one, nothing is compared: it holds other things of those names.
    """
    at = Comparison(planned=planned, live=live, facts=facts)
    checks = CHECKS if live.account == planned.account else OF_THE_FILES
    return tuple(finding for check in checks for finding in check(at))


def compare_templates(
    before: Sequence[PlannedStack], after: Sequence[PlannedStack], *, stage: str
) -> tuple[Finding, ...]:
    """Say what going from one set of templates to another would destroy or reset; no account is asked."""
    old = {stack.name: stack.template for stack in before}
    new = {stack.name: stack.template for stack in after}
    gone: dict[str, dict[str, object]] = {name: {} for name in old.keys() - new.keys()}
    lost = [
        finding
        for name, template in sorted((new | gone).items())
        for finding in lost_resources(name, before=old.get(name, {}), after=template)
    ]
    nothing = Live(account="", region="", bootstrap=None, stacks={})
    at = Comparison(planned=planned_of(after, stage=stage), live=nothing, facts=StageFacts(file=f"stages/{stage}.toml"))
    return (*lost, *lost_exports(before=old, after=new), *missing_outputs(new), *traffic.retention(at))
