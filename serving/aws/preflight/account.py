"""Who asks, what is bootstrapped, how much is allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from serving.aws.preflight.asking import Clients, ask, find
from serving.preflight.live import Unread
from serving.preflight.planned import Planned

_USAGE = " for endpoint usage"
_ACTIONS_A_CALL = 100


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


def permissions_of(clients: Clients, *, role: str, actions: Sequence[str]) -> dict[str, bool] | Unread:
    """Say which actions a role may call, as IAM simulates it."""
    return ask(lambda: dict(_simulated(clients, role, actions)))


def _simulated(clients: Clients, role: str, actions: Sequence[str]) -> Iterator[tuple[str, bool]]:
    for first in range(0, len(actions), _ACTIONS_A_CALL):
        asked = list(actions[first : first + _ACTIONS_A_CALL])
        pages = (
            clients("iam").get_paginator("simulate_principal_policy").paginate(PolicySourceArn=role, ActionNames=asked)
        )
        for page in pages:
            for result in page["EvaluationResults"]:
                yield result["EvalActionName"], result["EvalDecision"] == "allowed"
