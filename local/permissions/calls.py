"""What an operation needs by IAM: the actions, the resources that they act on, and what the request tells of itself.

Actions, resources and keys are those of the Service Authorization Reference. A service without a rule here is asked for
the action named as its operation on `*`, which only a statement on every resource allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from local.operations import Operation, Request
from local.permissions.patterns import Context
from local.permissions.policy import Call
from local.permissions.s3_calls import s3_needs

EVERY: Final = "*"
_PREFIXES: Final[Mapping[str, str]] = {"monitoring": "cloudwatch"}
"""The prefix of a service's actions, where it is not the name that requests are signed for."""
_ACTIONS: Final[Mapping[str, str]] = {
    "lambda:Invoke": "lambda:InvokeFunction",
    "lambda:InvokeWithResponseStream": "lambda:InvokeFunction",
    "sns:PublishBatch": "sns:Publish",
    "sqs:SendMessageBatch": "sqs:SendMessage",
    "sqs:DeleteMessageBatch": "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
}
"""The action of an operation, where it is not called alike: a batch is no action of its own."""
_FREE: Final = frozenset({"sts:GetCallerIdentity"})
"""Actions that need no permission."""

Parameters = Mapping[str, Any]
Need = tuple[str, str]
"""An action and the resource that it acts on."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call is made: what the ARN of a regional resource begins with."""

    region: str
    account: str

    def arn(self, service: str, resource: str) -> str:
        """Give the ARN of a resource; one that is an ARN already stays."""
        return resource if resource.startswith("arn:") else f"arn:aws:{service}:{self.region}:{self.account}:{resource}"


def calls_of(operation: Operation, request: Request, place: Place, caller: Context) -> tuple[Call, ...]:
    """Give what must be allowed, all of it; `caller` is what the context tells of who asks."""
    context = {**caller, **_context(operation, request)}
    needs = s3_needs(operation, request) if operation.service == "s3" else _needs(operation, request, place)
    return tuple(Call(action, resource, context) for action, resource in needs if action not in _FREE)


def _needs(operation: Operation, request: Request, place: Place) -> Iterator[Need]:
    prefix = _PREFIXES.get(operation.service, operation.service)
    if operation.name in _TRANSACTIONS and (items := list(_transaction(operation.parameters, place))):
        yield from items
        return
    action = _ACTIONS.get(f"{prefix}:{operation.name}", f"{prefix}:{operation.name}")
    names = _RESOURCES.get(prefix)
    found = list(names(operation.parameters, request, place)) if names is not None else []
    for resource in found or [_NAMELESS.get(action, EVERY)]:
        yield action, place.arn(prefix, resource) if resource != EVERY else EVERY


_TRANSACTIONS: Final = frozenset({"TransactWriteItems", "TransactGetItems"})
_ITEM_ACTIONS: Final[Mapping[str, str]] = {
    "Get": "dynamodb:GetItem",
    "Put": "dynamodb:PutItem",
    "Update": "dynamodb:UpdateItem",
    "Delete": "dynamodb:DeleteItem",
    "ConditionCheck": "dynamodb:ConditionCheckItem",
}
_NAMELESS: Final[Mapping[str, str]] = {
    "cloudwatch:DescribeAlarms": "alarm:*",
    "application-autoscaling:RegisterScalableTarget": "scalable-target/*",
}
"""What an action acts on that names nothing: every alarm; a target whose id AWS chooses."""


def _transaction(parameters: Parameters, place: Place) -> Iterator[Need]:
    """A transaction is no action: each of its items is one."""
    for item in _dicts(parameters.get("TransactItems")):
        for member, detail in item.items():
            if member in _ITEM_ACTIONS and isinstance(detail, Mapping):
                yield _ITEM_ACTIONS[member], place.arn("dynamodb", _named("table/", detail.get("TableName", "")))


def _dynamodb(parameters: Parameters, _request: Request, _place: Place) -> Iterator[str]:
    if "StreamArn" in parameters:
        yield str(parameters["StreamArn"])
    elif "TableName" in parameters:
        index = f"/index/{parameters['IndexName']}" if "IndexName" in parameters else ""
        yield _named("table/", parameters["TableName"]) + index
    items = parameters.get("RequestItems")
    yield from (_named("table/", table) for table in (items if isinstance(items, Mapping) else ()))


_SAGEMAKER: Final[Mapping[str, str]] = {
    "EndpointName": "endpoint",
    "EndpointConfigName": "endpoint-config",
    "ModelName": "model",
    "InferenceComponentName": "inference-component",
    "ModelPackageGroupName": "model-package-group",
    "ModelPackageName": "model-package",
}


def _sagemaker(parameters: Parameters, request: Request, _place: Place) -> Iterator[str]:
    named = dict(parameters)
    component = request.headers.get("x-amzn-sagemaker-inference-component")
    if component is not None:
        named["InferenceComponentName"] = component
    for parameter, kind in _SAGEMAKER.items():
        if parameter in named:
            yield _named(f"{kind}/", str(named[parameter]).lower())
    for variant in _dicts(parameters.get("ProductionVariants")):
        if "ModelName" in variant:
            yield f"model/{str(variant['ModelName']).lower()}"


def _cloudwatch(parameters: Parameters, _request: Request, _place: Place) -> Iterator[str]:
    names = parameters.get("AlarmNames")
    for name in [parameters.get("AlarmName"), *(names if isinstance(names, list) else [])]:
        if isinstance(name, str):
            yield _named("alarm:", name)


def _sqs(parameters: Parameters, _request: Request, _place: Place) -> Iterator[str]:
    if "QueueUrl" in parameters or "QueueName" in parameters:
        yield str(parameters.get("QueueUrl", parameters.get("QueueName"))).rpartition("/")[2]


def _secret(parameters: Parameters, _request: Request, _place: Place) -> Iterator[str]:
    """A secret's ARN ends with six characters that AWS chooses and a request need not carry."""
    name = parameters.get("SecretId", parameters.get("Name"))
    if isinstance(name, str):
        yield name if name.startswith("arn:") else f"secret:{name}-??????"


def _ssm(parameters: Parameters, _request: Request, _place: Place) -> Iterator[str]:
    names = parameters.get("Names")
    for name in [parameters.get("Name", parameters.get("Path")), *(names if isinstance(names, list) else [])]:
        if isinstance(name, str):
            yield _named("parameter/", name.removeprefix("/"))


def _kms(parameters: Parameters, _request: Request, _place: Place) -> Iterator[str]:
    """An alias stands for a key that the request does not name, and only the key's ARN counts (KMS guide, aliases)."""
    key = parameters.get("KeyId")
    if isinstance(key, str) and not key.rpartition(":")[2].startswith("alias/"):
        yield _named("key/", key)


def _lambda(parameters: Parameters, _request: Request, _place: Place) -> Iterator[str]:
    """A version or an alias is a resource of its own: the function's ARN does not stand for it."""
    name = parameters.get("FunctionName")
    if isinstance(name, str):
        qualifier = f":{parameters['Qualifier']}" if "Qualifier" in parameters else ""
        yield (name if name.startswith("arn:") else f"function:{name.rpartition('function:')[2]}") + qualifier


def _by(prefix: str, *parameters: str) -> Callable[[Parameters, Request, Place], Iterator[str]]:
    """Give a rule for resources that one of these parameters names, by ARN or by name."""

    def names(asked: Parameters, _request: Request, _place: Place) -> Iterator[str]:
        found = next((asked[parameter] for parameter in parameters if parameter in asked), None)
        if isinstance(found, str):
            yield _named(prefix, found)

    return names


_RESOURCES: Final[Mapping[str, Callable[[Parameters, Request, Place], Iterable[str]]]] = {
    "dynamodb": _dynamodb,
    "sagemaker": _sagemaker,
    "cloudwatch": _cloudwatch,
    "sns": _by("", "TopicArn", "TargetArn", "Name"),
    "sqs": _sqs,
    "ssm": _ssm,
    "kms": _kms,
    "kinesis": _by("stream/", "StreamARN", "StreamName"),
    "secretsmanager": _secret,
    "lambda": _lambda,
}


def _named(prefix: str, name: object) -> str:
    return str(name) if str(name).startswith("arn:") else f"{prefix}{name}"


def _dicts(found: object) -> list[Mapping[str, Any]]:
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


_KEYS: Final[Mapping[tuple[str, str], str]] = {
    ("monitoring", "Namespace"): "cloudwatch:namespace",
    ("application-autoscaling", "ServiceNamespace"): "application-autoscaling:service-namespace",
    ("application-autoscaling", "ScalableDimension"): "application-autoscaling:scalable-dimension",
    ("s3", "Prefix"): "s3:prefix",
    ("s3", "Delimiter"): "s3:delimiter",
    ("s3", "MaxKeys"): "s3:max-keys",
    ("s3", "VersionId"): "s3:versionid",
}
"""The condition keys that parameters of a request give."""


def _context(operation: Operation, request: Request) -> Context:
    found = {
        _KEYS[operation.service, name]: (str(value),)
        for name, value in operation.parameters.items()
        if (operation.service, name) in _KEYS
    }
    if operation.service == "s3":
        found |= {f"s3:{name}": (value,) for name, value in request.headers.items() if name.startswith("x-amz-")}
    return found
