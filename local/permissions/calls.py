"""What an operation needs by IAM: the actions, the resources that they act on, and what the request tells of itself.

Actions, resources and keys are those of the Service Authorization Reference. A service without a rule here is asked for
the action named as its operation on `*`, which only a statement on every resource allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any, Final
from urllib.parse import unquote

from local.operations import Operation, Request
from local.permissions.patterns import Context
from local.permissions.policy import Call

EVERY: Final = "*"
_PREFIXES: Final[Mapping[str, str]] = {"monitoring": "cloudwatch"}
"""The prefix of a service's actions, where it is not the name that requests are signed for."""
_ACTIONS: Final[Mapping[str, str]] = {"lambda:Invoke": "lambda:InvokeFunction"}
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
                yield _ITEM_ACTIONS[member], place.arn("dynamodb", f"table/{detail.get('TableName', '')}")


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
    key = parameters.get("KeyId")
    if isinstance(key, str):
        yield key if key.startswith("alias/") else _named("key/", key)


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
    "lambda": _by("function:", "FunctionName"),
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


_S3_ACTIONS: Final[Mapping[str, str]] = {
    "ListBuckets": "ListAllMyBuckets",
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListParts": "ListMultipartUploadParts",
    "HeadObject": "GetObject",
    "SelectObjectContent": "GetObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "UploadPartCopy": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "CopyObject": "PutObject",
    "DeleteObjects": "DeleteObject",
}
"""The action of an operation of S3, where it is not called alike."""
_VERSIONED: Final = frozenset({"GetObject", "DeleteObject", "GetObjectTagging", "PutObjectTagging", "GetObjectAcl"})
_KEY: Final = re.compile(r"<Key>([^<]*)</Key>")


def s3_needs(operation: Operation, request: Request) -> Iterator[Need]:
    """Give what an operation of S3 needs: a copy reads its source, a batch deletes each of its keys."""
    action = _S3_ACTIONS.get(operation.name, operation.name)
    if "VersionId" in operation.parameters and action in _VERSIONED:
        action = action.replace("Object", "ObjectVersion")
    bucket = operation.parameters.get("Bucket")
    if bucket is None:
        yield f"s3:{action}", EVERY
        return
    keys = [str(operation.parameters["Key"])] if "Key" in operation.parameters else []
    if operation.name == "DeleteObjects":
        keys = [unescape(key) for key in _KEY.findall(request.body.decode("utf-8", "replace"))]
    for resource in [f"{bucket}/{key}" for key in keys] or [str(bucket)]:
        yield f"s3:{action}", f"arn:aws:s3:::{resource}"
    source = request.headers.get("x-amz-copy-source")
    if source is not None:
        yield "s3:GetObject", f"arn:aws:s3:::{_source(source)}"


def _source(header: str) -> str:
    return unquote(header.partition("?")[0]).removeprefix("/")
