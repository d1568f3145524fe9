"""Evaluation of identity policies: deny wins, then allow, else an implicit deny.

IAM User Guide, "Policy evaluation logic", for one account: identity policies and a permissions boundary; no
organisation, no resource policy, no session policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import orjson

from local.permissions.conditions import Condition, PolicyError, parse
from local.permissions.patterns import Context, matches, tokens

_VARIABLES_SINCE: Final = "2012-10-17"


class Decision(Enum):
    """What the policies say of a call."""

    ALLOWED = "allowed"
    DENIED = "explicit deny"
    NOT_ALLOWED = "no allow"
    OUT_OF_BOUNDARY = "no allow in the boundary"


@dataclass(frozen=True, slots=True)
class Call:
    """One action on one resource; `resource` is "*" for an action that has none."""

    action: str
    resource: str
    context: Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement; with `other_actions` or `other_resources` it is about all but those named."""

    denies: bool
    actions: tuple[str, ...]
    other_actions: bool
    resources: tuple[str, ...]
    other_resources: bool
    conditions: tuple[Condition, ...]
    variables: bool

    def applies(self, call: Call) -> bool:
        """Say whether it is about this call."""
        return (
            self._acts(call.action)
            and self._reaches(call)
            and all(condition.holds(call.context, variables=self.variables) for condition in self.conditions)
        )

    def _acts(self, action: str) -> bool:
        # actions have no case, resources do
        named = any(matches(tokens(name.lower(), {}, variables=False) or (), action.lower()) for name in self.actions)
        return named != self.other_actions

    def _reaches(self, call: Call) -> bool:
        patterns = [tokens(name, call.context, variables=self.variables) for name in self.resources]
        if self.other_resources and None in patterns:
            return False
        named = any(pattern is not None and matches(pattern, call.resource) for pattern in patterns)
        return named != self.other_resources


def statements(document: str | bytes | Mapping[str, Any]) -> tuple[Statement, ...]:
    """Give the statements of a policy document.

    Raises:
        PolicyError: the document is none that IAM would have taken.

    """
    try:
        policy = document if isinstance(document, Mapping) else orjson.loads(document)
        return tuple(_statement(entry, policy.get("Version", "")) for entry in _entries(policy["Statement"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise PolicyError(
            f"policy document: got one that IAM does not take ({type(error).__name__}: {error})"
        ) from error


def decide(call: Call, identity: Sequence[Statement], *, boundary: Sequence[Statement] | None = None) -> Decision:
    """Say whether a role may make a call; without `boundary` there is none."""
    layers = (identity, *([boundary] if boundary is not None else []))
    if any(statement.denies and statement.applies(call) for layer in layers for statement in layer):
        return Decision.DENIED
    if not _allows(identity, call):
        return Decision.NOT_ALLOWED
    if boundary is not None and not _allows(boundary, call):
        return Decision.OUT_OF_BOUNDARY
    return Decision.ALLOWED


def _allows(layer: Sequence[Statement], call: Call) -> bool:
    return any(not statement.denies and statement.applies(call) for statement in layer)


def _statement(entry: Mapping[str, Any], version: str) -> Statement:
    if entry["Effect"] not in {"Allow", "Deny"}:
        raise PolicyError(f"Effect: got {entry['Effect']}; allowed: Allow, Deny")
    if ("Action" in entry) == ("NotAction" in entry) or ("Resource" in entry) == ("NotResource" in entry):
        raise PolicyError("statement: allowed: one of Action and NotAction, and one of Resource and NotResource")
    return Statement(
        denies=entry["Effect"] == "Deny",
        actions=_texts(entry.get("Action", entry.get("NotAction"))),
        other_actions="NotAction" in entry,
        resources=_texts(entry.get("Resource", entry.get("NotResource"))),
        other_resources="NotResource" in entry,
        conditions=parse(entry.get("Condition", {})),
        variables=version == _VARIABLES_SINCE,
    )


def _entries(found: Any) -> Sequence[Mapping[str, Any]]:  # noqa: ANN401 - any JSON value
    return found if isinstance(found, list) else [found]


def _texts(found: Any) -> tuple[str, ...]:  # noqa: ANN401 - any JSON value
    return (found,) if isinstance(found, str) else tuple(str(text) for text in found)
