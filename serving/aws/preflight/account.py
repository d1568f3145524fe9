"""Who asks, what is bootstrapped, how much is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from serving.aws.preflight.asking import Clients, ask, find
from serving.preflight.checks.account import Permission
from serving.preflight.live import Concurrency, Unread
from serving.preflight.planned import Planned

_USAGE = " for endpoint usage"


def account_of(clients: Clients) -> str | Unread:
    """Give the account of the credentials."""
    return ask(lambda: str(clients("sts").get_caller_identity()["Account"]))


def bootstrap_of(clients: Clients, planned: Planned) -> int | Unread | None:
    """Give the version of the CDK's bootstrap; None where there is none."""
    name = planned.stacks[0].bootstrap_parameter
    ssm = clients("ssm")
    found = ask(lambda: find(lambda: ssm.get_parameter(Name=name), absent=("ParameterNotFound",)))
    return found if found is None or isinstance(found, Unread) else int(found["Parameter"]["Value"])


def quotas_of(clients: Clients) -> dict[str, int] | Unread:
    """Give the quota of each instance type "for endpoint usage"; what was never raised has AWS's default alone."""
    return ask(lambda: {**dict(_quotas(clients, "default")), **dict(_quotas(clients, "applied"))})


def _quotas(clients: Clients, which: str) -> Iterator[tuple[str, int]]:
    name = "list_aws_default_service_quotas" if which == "default" else "list_service_quotas"
    for page in clients("service-quotas").get_paginator(name).paginate(ServiceCode="sagemaker"):
        for quota in page["Quotas"]:
            if quota["QuotaName"].endswith(_USAGE):
                yield quota["QuotaName"].removesuffix(_USAGE), int(quota["Value"])


def concurrency_of(clients: Clients) -> Concurrency | Unread:
    """Give how many Lambda executions the account may have at once, and how many are reserved for no function."""
    found = ask(lambda: clients("lambda").get_account_settings()["AccountLimit"])
    if isinstance(found, Unread):
        return found
    return Concurrency(limit=found["ConcurrentExecutions"], unreserved=found["UnreservedConcurrentExecutions"])


def permissions_of(clients: Clients, *, role: str, needed: Sequence[Permission]) -> dict[str, bool] | Unread:
    """Say which actions a role may call on the resources meant, as IAM simulates it."""
    return ask(lambda: dict(_simulated(clients, role, needed)))


def _simulated(clients: Clients, role: str, needed: Sequence[Permission]) -> Iterator[tuple[str, bool]]:
    by_resource: dict[str, list[str]] = {}
    for permission in needed:
        by_resource.setdefault(permission.resource, []).append(permission.action)
    pages = clients("iam").get_paginator("simulate_principal_policy")
    for resource, actions in by_resource.items():
        for page in pages.paginate(PolicySourceArn=role, ActionNames=actions, ResourceArns=[resource]):
            for result in page["EvaluationResults"]:
                yield result["EvalActionName"], result["EvalDecision"] == "allowed"
