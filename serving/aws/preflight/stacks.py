"""The stage's stacks as CloudFormation holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from serving.aws.preflight.asking import Clients, ask
from serving.preflight.live import LiveStack, Unread

_GONE = {"DELETE_COMPLETE"}


def stacks_of(clients: Clients, *, prefix: str) -> dict[str, LiveStack] | Unread:
    """Give the live stacks whose names begin so, with template and resources."""
    return ask(lambda: {stack.name: stack for stack in _stacks(clients, prefix)})


def _stacks(clients: Clients, prefix: str) -> Iterator[LiveStack]:
    cloudformation = clients("cloudformation")
    for page in cloudformation.get_paginator("describe_stacks").paginate():
        for found in page["Stacks"]:
            if found["StackName"].startswith(prefix) and found["StackStatus"] not in _GONE:
                yield _stack(cloudformation, found)


def _stack(cloudformation: Any, found: Mapping[str, Any]) -> LiveStack:  # noqa: ANN401 - boto3 makes clients at run time
    name = found["StackName"]
    pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=name)
    return LiveStack(
        name=name,
        status=found["StackStatus"],
        reason=found.get("StackStatusReason", ""),
        template=_template(cloudformation.get_template(StackName=name, TemplateStage="Original")["TemplateBody"]),
        physical={
            resource["LogicalResourceId"]: resource.get("PhysicalResourceId", "")
            for page in pages
            for resource in page["StackResourceSummaries"]
            if resource["ResourceStatus"] != "DELETE_COMPLETE"
        },
        protected=bool(found.get("EnableTerminationProtection", False)),
    )


def _template(body: Any) -> Mapping[str, Any]:  # noqa: ANN401 - boto3 gives JSON parsed, YAML as text
    if isinstance(body, str):
        return dict(orjson.loads(body)) if body.lstrip().startswith("{") else {}
    return dict(body)
