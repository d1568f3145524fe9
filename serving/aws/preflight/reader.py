"""All questions in one look."""

from __future__ import annotations

import os
from dataclasses import replace

from serving.aws.preflight.account import account_of, bootstrap_of, concurrency_of, permissions_of, quotas_of
from serving.aws.preflight.artifacts import approvals_of, archives_of, images_of
from serving.aws.preflight.asking import Clients
from serving.aws.preflight.endpoints import elsewhere_of, endpoints_of, releases_of, targets_of
from serving.aws.preflight.names import owners_of
from serving.aws.preflight.stacks import stacks_of
from serving.preflight.checks.account import needed_permissions
from serving.preflight.checks.names import new_names
from serving.preflight.live import Live
from serving.preflight.planned import Planned
from serving.preflight.stage_facts import StageFacts


def read_live(planned: Planned, facts: StageFacts) -> Live:
    """Ask the account that the credentials are for, in the region of the templates, all that the plan touches.

    In another account nothing is asked: its answers would be about other things of the same names.
    """
    clients = Clients(planned.stacks[0].region)
    account = account_of(clients)
    live = Live(account=account, region=os.environ.get("AWS_REGION", ""), bootstrap=None, stacks={})
    if account != planned.account:
        return live
    live = replace(
        live,
        bootstrap=bootstrap_of(clients, planned),
        permissions=permissions_of(clients, role=planned.stacks[0].execution_role, needed=needed_permissions(planned)),
        stacks=stacks_of(clients, prefix=f"streamhub-{planned.stage}-"),
        quotas=quotas_of(clients),
        concurrency=concurrency_of(clients),
        images=images_of(clients, planned),
        archives=archives_of(clients, planned),
        endpoints=endpoints_of(clients, planned),
        targets=targets_of(clients),
        elsewhere=elsewhere_of(clients, planned),
    )
    return replace(
        live,
        owners=owners_of(clients, new_names(planned, live)),
        releases=releases_of(clients, planned, live, facts),
        approvals=approvals_of(clients, facts, live.archives),
    )
