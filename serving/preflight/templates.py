"""A folder that `cdk synth` wrote, as values, and what its intrinsic functions stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import orjson

from serving.errors import PreflightError

Json = Mapping[str, Any]

NAME_PROPERTIES: Final[Mapping[str, str]] = {
    "AWS::ApplicationAutoScaling::ScalingPolicy": "PolicyName",
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::CompositeAlarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::ElastiCache::ReplicationGroup": "ReplicationGroupId",
    "AWS::ElastiCache::ServerlessCache": "ServerlessCacheName",
    "AWS::ElastiCache::User": "UserId",
    "AWS::ElastiCache::UserGroup": "UserGroupId",
    "AWS::IAM::Role": "RoleName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SageMaker::Endpoint": "EndpointName",
    "AWS::SageMaker::InferenceComponent": "InferenceComponentName",
}
"""By type: the property that names a resource, where a template may choose it (CloudFormation, resource reference)."""


class Unknown(Enum):
    """A value that only CloudFormation knows, once the resource is made."""

    UNKNOWN = "known after deploy"


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of a template."""

    stack: str
    id: str
    kind: str
    properties: Json
    deletion_policy: str = "Delete"

    @property
    def path(self) -> str:
        """Where a reader finds it: stack, logical id and type."""
        return f"{self.stack} {self.id} ({self.kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStack:
    """One stack of a stage as it would be deployed, and what its deployment needs of the bootstrap."""

    name: str
    account: str
    region: str
    template: Json
    execution_role: str = ""
    bootstrap_parameter: str = ""
    bootstrap_version: int = 0

    def resources(self, kind: str | None = None) -> Iterator[Resource]:
        """Give its resources, of one type or of all."""
        return resources_of(self.name, self.template, kind)


def resources_of(stack: str, template: Json, kind: str | None = None) -> Iterator[Resource]:
    """Give a template's resources, of one type or of all."""
    for logical_id, entry in template.get("Resources", {}).items():
        if kind in {None, entry["Type"]}:
            yield Resource(
                stack=stack,
                id=logical_id,
                kind=entry["Type"],
                properties=entry.get("Properties") or {},
                deletion_policy=entry.get("DeletionPolicy", "Delete"),
            )


def read_stacks(folder: Path) -> tuple[PlannedStack, ...]:
    """Read a folder that `cdk synth` wrote: its manifest and templates.

    Raises:
        PreflightError: it is none.

    """
    manifest = _json(folder / "manifest.json")
    try:
        stacks = [
            _stack(folder, name, artifact["environment"], artifact["properties"])
            for name, artifact in sorted(manifest.get("artifacts", {}).items())
            if artifact.get("type") == "aws:cloudformation:stack"
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PreflightError(
            f"{folder / 'manifest.json'}: got no manifest of cdk synth ({type(error).__name__}: {error}); allowed one; "
            f"run make synth STAGE=…"
        ) from error
    if not stacks:
        raise PreflightError(f"{folder}: got no stack; allowed what cdk synth writes; run make synth STAGE=…")
    return tuple(stacks)


def _stack(folder: Path, name: str, environment: str, properties: Json) -> PlannedStack:
    account, region = environment.removeprefix("aws://").split("/")
    return PlannedStack(
        name=properties.get("stackName", name),
        account=account,
        region=region,
        template=_json(folder / properties["templateFile"]),
        execution_role=properties.get("cloudFormationExecutionRoleArn", "").replace("${AWS::Partition}", "aws"),
        bootstrap_parameter=properties.get("bootstrapStackVersionSsmParameter", ""),
        bootstrap_version=int(properties.get("requiresBootstrapStackVersion", 0)),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        document = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise PreflightError(
            f"{path}: got {error}; allowed what cdk synth writes; run make synth STAGE=…, or name the folder with "
            f"--templates"
        ) from error
    if not isinstance(document, dict):
        raise PreflightError(f"{path}: got no object; allowed what cdk synth writes; run make synth STAGE=…")
    return document


class Resolver:
    """Turns a template's values into plain ones, as far as they follow from the stage's templates alone."""

    def __init__(self, stacks: Sequence[PlannedStack]) -> None:
        self._stacks = {stack.name: stack for stack in stacks}
        self._exports: dict[str, tuple[PlannedStack, Any]] = {
            str(output["Export"]["Name"]): (stack, output["Value"])
            for stack in stacks
            for output in stack.template.get("Outputs", {}).values()
            if isinstance(output.get("Export", {}).get("Name"), str)
        }

    def value(self, stack: PlannedStack, node: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Give a value with every intrinsic function in it replaced; UNKNOWN if one is known after deploy only."""
        if isinstance(node, dict):
            if len(node) == 1:
                [(name, argument)] = node.items()
                if name in _FUNCTIONS:
                    return _FUNCTIONS[name](self, stack, argument)
                if name.startswith("Fn::"):
                    return UNKNOWN
            return {key: self.value(stack, item) for key, item in node.items()}
        if isinstance(node, list):
            return [self.value(stack, item) for item in node]
        return node

    def text(self, stack: PlannedStack, node: Any) -> str | None:  # noqa: ANN401 - any JSON value
        """Give a value as text; None when it is known after deploy only, or absent."""
        value = self.value(stack, node)
        return None if value is UNKNOWN or value is None else str(value)

    def name_of(self, stack: PlannedStack, resource: Resource) -> str | None:
        """Give the name that the template chooses for a resource; None where CloudFormation makes one."""
        named = NAME_PROPERTIES.get(resource.kind)
        return self.text(stack, resource.properties.get(named)) if named is not None else None

    def ref(self, stack: PlannedStack, target: str) -> Any:  # noqa: ANN401 - any JSON value
        """Give what `Ref` stands for."""
        pseudo = {
            "AWS::AccountId": stack.account,
            "AWS::Region": stack.region,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackName": stack.name,
        }
        if target in pseudo:
            return pseudo[target]
        parameter = stack.template.get("Parameters", {}).get(target)
        if parameter is not None:
            return parameter.get("Default", UNKNOWN)
        name = self._named(stack, target)
        return UNKNOWN if name is None else name

    def attribute(self, stack: PlannedStack, argument: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Give what `Fn::GetAtt` stands for: names that a template chose, nothing else."""
        target, _, attribute = (argument if isinstance(argument, str) else ".".join(argument)).partition(".")
        kind = stack.template.get("Resources", {}).get(target, {}).get("Type", "")
        if attribute and attribute == NAME_PROPERTIES.get(kind):
            name = self._named(stack, target)
            return UNKNOWN if name is None else name
        return UNKNOWN

    def join(self, stack: PlannedStack, argument: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Give what `Fn::Join` stands for."""
        between, parts = argument
        values = [self.value(stack, part) for part in parts]
        return UNKNOWN if UNKNOWN in values else str(between).join(str(value) for value in values)

    def sub(self, stack: PlannedStack, argument: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Give what `Fn::Sub` stands for."""
        text, given = (argument, {}) if isinstance(argument, str) else argument
        names = re.findall(r"\$\{([^!}][^}]*)\}", text)
        values = {name: self._substitute(stack, name, given) for name in names}
        if UNKNOWN in values.values():
            return UNKNOWN
        return re.sub(r"\$\{([^!}][^}]*)\}", lambda found: str(values[found[1]]), text)

    def imported(self, _stack: PlannedStack, argument: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Give what `Fn::ImportValue` stands for, when a stack of the same stage exports it."""
        if not isinstance(argument, str) or argument not in self._exports:
            return UNKNOWN
        exporter, value = self._exports[argument]
        return self.value(exporter, value)

    def output(self, stack: PlannedStack, argument: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Give what `Fn::GetStackOutput` stands for, when the named stack is one of the stage."""
        asked = self.value(stack, argument)
        producer = self._stacks.get(asked.get("StackName", "")) if isinstance(asked, dict) else None
        if producer is None:
            return UNKNOWN
        found = producer.template.get("Outputs", {}).get(asked.get("OutputName", ""))
        return UNKNOWN if found is None else self.value(producer, found["Value"])

    def _substitute(self, stack: PlannedStack, name: str, given: Json) -> Any:  # noqa: ANN401 - any JSON value
        if name in given:
            return self.value(stack, given[name])
        return self.attribute(stack, name) if "." in name else self.ref(stack, name)

    def _named(self, stack: PlannedStack, target: str) -> str | None:
        found = next((resource for resource in stack.resources() if resource.id == target), None)
        return self.name_of(stack, found) if found is not None else None


_FUNCTIONS: Final = {
    "Ref": Resolver.ref,
    "Fn::GetAtt": Resolver.attribute,
    "Fn::Join": Resolver.join,
    "Fn::Sub": Resolver.sub,
    "Fn::ImportValue": Resolver.imported,
    "Fn::GetStackOutput": Resolver.output,
}


def referenced(node: Any) -> str | None:  # noqa: ANN401 - any JSON value
    """Give the logical id that a `Ref` or `Fn::GetAtt` names; None for anything else."""
    if not isinstance(node, dict) or len(node) != 1:
        return None
    [(name, argument)] = node.items()
    if name == "Ref":
        return str(argument)
    if name == "Fn::GetAtt":
        return str(argument).partition(".")[0] if isinstance(argument, str) else str(argument[0])
    return None
