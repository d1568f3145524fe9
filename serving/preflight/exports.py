"""Values that stacks give each other: CloudFormation refuses to take away one that is in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from serving.preflight.finding import Finding

Templates = Mapping[str, Mapping[str, Any]]


def lost_exports(*, before: Templates, after: Templates) -> Iterator[Finding]:
    """Say which exports of `before` are gone or changed in `after`, though another stack of `before` imports them.

    That the importer gives the import up in the same deploy does not help: the exporter is updated first.
    """
    importers = _importers(before)
    for stack, template in sorted(after.items()):
        old, new = _exports(before.get(stack, {})), _exports(template)
        for name, value in sorted(old.items()):
            users = sorted(importers.get(name, set()) - {stack})
            if users and new.get(name) != value:
                yield Finding(
                    level="error",
                    check="export",
                    what=f"{stack}: {name}",
                    got="removed" if name not in new else "another value",
                    allowed=f"kept while {', '.join(users)} imports it",
                    fix="deploy in two steps: first the importer without it (keep the export by Stack.export_value), "
                    "then the exporter",
                    source="CloudFormation guide, Fn::ImportValue",
                )


def missing_outputs(templates: Templates) -> Iterator[Finding]:
    """Say which outputs of another stack a template reads that this stack would not have: weak references are not kept.

    Stacks that are none of `templates` are somebody else's, and nothing is said of them.
    """
    for stack, template in sorted(templates.items()):
        for asked in _arguments(template, "Fn::GetStackOutput"):
            producer, name = str(asked.get("StackName", "")), str(asked.get("OutputName", ""))
            if producer in templates and name not in templates[producer].get("Outputs", {}):
                yield Finding(
                    level="error",
                    check="output",
                    what=stack,
                    got=f"a reference to {producer} {name}, which its template has not",
                    allowed="an output of that stack",
                    fix="synthesise all stacks of the stage together: make synth",
                    source="CloudFormation guide, Fn::GetStackOutput",
                )


def _exports(template: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(output["Export"]["Name"]): output["Value"]
        for output in template.get("Outputs", {}).values()
        if "Export" in output
    }


def _importers(templates: Templates) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for stack, template in templates.items():
        for name in _arguments(template, "Fn::ImportValue"):
            if isinstance(name, str):
                found.setdefault(name, set()).add(stack)
    return found


def _arguments(node: Any, function: str) -> Iterator[Any]:  # noqa: ANN401 - any JSON value
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == function:
                yield value
            else:
                yield from _arguments(value, function)
    elif isinstance(node, list | tuple):
        for item in node:
            yield from _arguments(item, function)
