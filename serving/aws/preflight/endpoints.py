"""The stage's endpoints, their scaling, and what other endpoints of the account use."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

from botocore.exceptions import ClientError

from serving.aws.hosted import instances_of, read_endpoint
from serving.aws.preflight.asking import Clients, ask
from serving.aws.releases import DynamoReleaseStore
from serving.preflight.checks.names import new_names
from serving.preflight.live import Live, LiveEndpoint, LiveTarget, Unread
from serving.preflight.planned import Planned
from serving.preflight.stage_facts import StageFacts
from serving.release.state import ReleaseRecord

_NAMESPACE: Final = "sagemaker"


def endpoints_of(clients: Clients, planned: Planned) -> dict[str, LiveEndpoint | Unread]:
    """Give the planned endpoints that are there already."""
    found = {endpoint.name: ask(partial(_endpoint, clients, endpoint.name)) for endpoint in planned.endpoints}
    return {name: endpoint for name, endpoint in found.items() if endpoint is not None}


def _endpoint(clients: Clients, name: str) -> LiveEndpoint | None:
    try:
        return read_endpoint(clients("sagemaker"), name)
    except ClientError as error:
        if is_missing(error):
            return None
        raise


def is_missing(error: ClientError) -> bool:
    """Say whether SageMaker means that there is none: it has no code of its own for it."""
    return "Could not find endpoint" in error.response.get("Error", {}).get("Message", "")


def targets_of(clients: Clients) -> dict[str, LiveTarget] | Unread:
    """Give all scalable targets of SageMaker by resource id."""
    scaling = clients("application-autoscaling")
    pages = scaling.get_paginator("describe_scalable_targets")
    return ask(
        lambda: {
            target["ResourceId"]: LiveTarget(minimum=target["MinCapacity"], maximum=target["MaxCapacity"])
            for page in pages.paginate(ServiceNamespace=_NAMESPACE)
            for target in page["ScalableTargets"]
        }
    )


def elsewhere_of(clients: Clients, planned: Planned) -> dict[str, int] | Unread:
    """Count the instances by type of endpoints that are none of the plan's."""
    ours = {endpoint.name for endpoint in planned.endpoints}
    return ask(lambda: _elsewhere(clients, ours))


def _elsewhere(clients: Clients, ours: set[str]) -> dict[str, int]:
    used: Counter[str] = Counter()
    sagemaker = clients("sagemaker")
    for page in sagemaker.get_paginator("list_endpoints").paginate():
        for found in page["Endpoints"]:
            if found["EndpointName"] not in ours:
                used.update(instances_of(sagemaker, found["EndpointName"]))
    return dict(used)


def releases_of(clients: Clients, planned: Planned, live: Live, facts: StageFacts) -> dict[str, ReleaseRecord | Unread]:
    """Give the release records of the stage's endpoints, where there are any."""
    new = new_names(planned, live)
    table = next((key[1] for key in planned.names if key[0] == "AWS::DynamoDB::Table" and key not in new), None)
    if table is None:
        return {}
    store = DynamoReleaseStore(clients("dynamodb"), table=table)
    found = {endpoint: ask(partial(store.get, model)) for endpoint, model in facts.models.items()}
    return {endpoint: record for endpoint, record in found.items() if record is not None}
