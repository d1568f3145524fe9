"""Who has the names that new resources want."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from botocore.exceptions import ClientError

from serving.aws.preflight.asking import Clients, ask, code_of, find
from serving.aws.preflight.endpoints import is_missing
from serving.preflight.live import Unread

Lookup = Callable[[Clients, Sequence[str]], Iterable[str]]
"""Of these names, those that are taken."""

_ALARMS_A_CALL = 100


def owners_of(clients: Clients, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str | Unread]:
    """Give who has each of these names, by type and name: a stack, or "" for something that is in none."""
    by_kind: dict[str, list[str]] = {}
    for kind, name in wanted:
        by_kind.setdefault(kind, []).append(name)
    owners: dict[tuple[str, str], str | Unread] = {}
    for kind, names in by_kind.items():
        lookup = _LOOKUPS.get(kind)
        taken = ask(partial(_taken, clients, lookup, names)) if lookup is not None else set()
        if isinstance(taken, Unread):
            owners |= dict.fromkeys(((kind, name) for name in names), taken)
        else:
            owners |= {(kind, name): ask(partial(_stack_of, clients, name)) for name in sorted(taken)}
    return owners


def _taken(clients: Clients, lookup: Lookup, names: Sequence[str]) -> set[str]:
    return set(lookup(clients, names))


def _stack_of(clients: Clients, physical_id: str) -> str:
    found: Any = find(
        lambda: clients("cloudformation").describe_stack_resources(PhysicalResourceId=physical_id),
        absent=("ValidationError",),
    )
    resources = found["StackResources"] if found is not None else []
    return str(resources[0]["StackName"]) if resources else ""


def _each(service: str, call: str, parameter: str, *absent: str) -> Lookup:
    def look(clients: Clients, names: Sequence[str]) -> Iterable[str]:
        method = getattr(clients(service), call)
        return [name for name in names if find(partial(method, **{parameter: name}), absent=absent) is not None]

    return look


def _endpoints(clients: Clients, names: Sequence[str]) -> Iterable[str]:
    for name in names:
        try:
            clients("sagemaker").describe_endpoint(EndpointName=name)
        except ClientError as error:
            if not is_missing(error):
                raise
        else:
            yield name


def _components(clients: Clients, names: Sequence[str]) -> Iterable[str]:
    pages = clients("sagemaker").get_paginator("list_inference_components").paginate()
    there = {found["InferenceComponentName"] for page in pages for found in page["InferenceComponents"]}
    return there & set(names)


def _buckets(clients: Clients, names: Sequence[str]) -> Iterable[str]:
    for name in names:
        try:
            clients("s3").head_bucket(Bucket=name)
        except ClientError as error:
            # names are the whole world's: 403 is somebody else's bucket
            if code_of(error) == "404":
                continue
            if code_of(error) != "403":
                raise
        yield name


def _alarms(clients: Clients, names: Sequence[str]) -> Iterable[str]:
    for first in range(0, len(names), _ALARMS_A_CALL):
        asked = list(names[first : first + _ALARMS_A_CALL])
        pages = clients("cloudwatch").get_paginator("describe_alarms")
        for page in pages.paginate(AlarmNames=asked, AlarmTypes=["MetricAlarm", "CompositeAlarm"]):
            for kind in ("MetricAlarms", "CompositeAlarms"):
                yield from (alarm["AlarmName"] for alarm in page.get(kind, ()))


def _log_groups(clients: Clients, names: Sequence[str]) -> Iterable[str]:
    for name in names:
        found = clients("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        yield from (group["logGroupName"] for group in found if group["logGroupName"] == name)


def _topics(clients: Clients, names: Sequence[str]) -> Iterable[str]:
    wanted = set(names)
    for page in clients("sns").get_paginator("list_topics").paginate():
        yield from wanted & {topic["TopicArn"].rpartition(":")[2] for topic in page["Topics"]}


_LOOKUPS: Final[Mapping[str, Lookup]] = {
    "AWS::CloudWatch::Alarm": _alarms,
    "AWS::CloudWatch::CompositeAlarm": _alarms,
    "AWS::DynamoDB::Table": _each("dynamodb", "describe_table", "TableName", "ResourceNotFoundException"),
    "AWS::ElastiCache::ReplicationGroup": _each(
        "elasticache", "describe_replication_groups", "ReplicationGroupId", "ReplicationGroupNotFoundFault"
    ),
    "AWS::ElastiCache::ServerlessCache": _each(
        "elasticache", "describe_serverless_caches", "ServerlessCacheName", "ServerlessCacheNotFoundFault"
    ),
    "AWS::ElastiCache::User": _each("elasticache", "describe_users", "UserId", "UserNotFound", "UserNotFoundFault"),
    "AWS::IAM::Role": _each("iam", "get_role", "RoleName", "NoSuchEntity"),
    "AWS::Lambda::Function": _each("lambda", "get_function_configuration", "FunctionName", "ResourceNotFoundException"),
    "AWS::Logs::LogGroup": _log_groups,
    "AWS::S3::Bucket": _buckets,
    "AWS::SNS::Topic": _topics,
    "AWS::SageMaker::Endpoint": _endpoints,
    "AWS::SageMaker::InferenceComponent": _components,
}
"""Types whose names collide; the others' are replaced silently (dashboards) or hang on one of these (policies)."""
