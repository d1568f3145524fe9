"""Condition operators of IAM policies (IAM User Guide, "IAM JSON policy elements: Condition operators")."""

from __future__ import annotations

import base64
import ipaddress
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from local.permissions.patterns import Context, Token, Wild, matches, tokens
from serving.errors import LocalStackError

_SETS: Final = ("forallvalues:", "foranyvalue:")
_IF_EXISTS: Final = "ifexists"
_ARN_PARTS: Final = 6


class PolicyError(LocalStackError):
    """A policy that IAM would not have taken."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One key of a condition block: `operator` as the policy writes it, any of `values` may match."""

    operator: str
    key: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse an operator that IAM does not have; Null, which asks whether a key is there, takes no IfExists.

        Raises:
            PolicyError: with its name.

        """
        name = self.operator.lower()
        base = _base(name)
        known = not name.endswith(_IF_EXISTS) if base == "null" else base in _POSITIVE or base in _NEGATED
        if not known:
            raise PolicyError(f"condition operator: got {self.operator}; allowed: those of IAM")

    def holds(self, context: Context, *, variables: bool) -> bool:
        """Say whether the request meets it.

        A key that the request does not have meets negated operators, `...IfExists` and `ForAllValues:`, and nothing
        else.
        """
        name = self.operator.lower()
        found = context.get(self.key.lower())
        base = _base(name)
        if base == "null":
            return any((found is None) == (value.lower() == "true") for value in self.values)
        if found is None:
            absent_holds = base in _NEGATED and not name.startswith("foranyvalue:")
            return absent_holds or name.startswith("forallvalues:") or name.endswith(_IF_EXISTS)
        fits = [self._fits(base, value, context, variables=variables) for value in found]
        return any(fits) if name.startswith("foranyvalue:") else all(fits)

    def _fits(self, base: str, value: str, context: Context, *, variables: bool) -> bool:
        compare = _POSITIVE[_NEGATED.get(base, base)]
        found = any(compare(value, wanted, context, variables) for wanted in self.values)
        return not found if base in _NEGATED else found


def parse(block: Mapping[str, Mapping[str, object]]) -> tuple[Condition, ...]:
    """Give every condition of a statement; all must hold.

    Raises:
        PolicyError: an operator that IAM does not have.

    """
    return tuple(
        Condition(operator=name, key=key, values=_texts(values))
        for name, keys in block.items()
        for key, values in keys.items()
    )


def _texts(values: object) -> tuple[str, ...]:
    return tuple(_text(value) for value in (values if isinstance(values, list) else [values]))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _base(name: str) -> str:
    for prefix in _SETS:
        name = name.removeprefix(prefix)
    return name.removesuffix(_IF_EXISTS)


Compare = Callable[[str, str, Context, bool], bool]


def _like(value: str, wanted: str, context: Context, variables: bool) -> bool:  # noqa: FBT001 - one shape for all
    pattern = tokens(wanted, context, variables=variables)
    return pattern is not None and matches(pattern, value)


def _literal(wanted: str, context: Context, variables: bool) -> str | None:  # noqa: FBT001 - as above
    """Give the text with its variables filled in; a wildcard of the policy stays the character that it is."""
    pattern = tokens(wanted, context, variables=variables)
    return None if pattern is None else "".join(part.value if isinstance(part, Wild) else part for part in pattern)


def _equals(value: str, wanted: str, context: Context, variables: bool) -> bool:  # noqa: FBT001 - as above
    return value == _literal(wanted, context, variables)


def _equals_ignoring_case(value: str, wanted: str, context: Context, variables: bool) -> bool:  # noqa: FBT001
    literal = _literal(wanted, context, variables)
    return literal is not None and value.lower() == literal.lower()


def _bool(value: str, wanted: str, _context: Context, _variables: bool) -> bool:  # noqa: FBT001 - as above
    return value.lower() == wanted.lower()


def _arn_like(value: str, wanted: str, context: Context, variables: bool) -> bool:  # noqa: FBT001 - as above
    """Compare the six parts of an ARN one by one: a wildcard of one part reaches no other."""
    pattern = tokens(wanted, context, variables=variables)  # before it is split: a variable's name has a colon too
    if pattern is None:
        return False
    ours, theirs = value.split(":", _ARN_PARTS - 1), _parts(pattern)
    if len(ours) < _ARN_PARTS or len(theirs) < _ARN_PARTS:
        return wanted == "*"
    return all(matches(their, our) for our, their in zip(ours, theirs, strict=True))


def _parts(pattern: Sequence[Token]) -> list[Sequence[Token]]:
    ends = [place for place, found in enumerate(pattern) if found == ":"][: _ARN_PARTS - 1]
    starts = [0, *(end + 1 for end in ends)]
    return [pattern[start:end] for start, end in zip(starts, [*ends, len(pattern)], strict=True)]


def _ip(value: str, wanted: str, _context: Context, _variables: bool) -> bool:  # noqa: FBT001 - as above
    try:
        return ipaddress.ip_address(value) in ipaddress.ip_network(wanted, strict=False)
    except ValueError:
        return False


def _binary(value: str, wanted: str, _context: Context, _variables: bool) -> bool:  # noqa: FBT001 - as above
    try:
        return base64.b64decode(value, validate=True) == base64.b64decode(wanted, validate=True)
    except ValueError:
        return False


def _numbers(compare: Callable[[float, float], bool]) -> Compare:
    def fits(value: str, wanted: str, _context: Context, _variables: bool) -> bool:  # noqa: FBT001 - as above
        try:
            return compare(float(value), float(wanted))
        except ValueError:
            return False

    return fits


def _dates(compare: Callable[[float, float], bool]) -> Compare:
    def fits(value: str, wanted: str, _context: Context, _variables: bool) -> bool:  # noqa: FBT001 - as above
        try:
            return compare(_epoch_s(value), _epoch_s(wanted))
        except ValueError:
            return False

    return fits


def _epoch_s(text: str) -> float:
    if text.lstrip("-").isdigit():
        return float(text)
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


_ORDERS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "equals": operator.eq,
    "lessthan": operator.lt,
    "lessthanequals": operator.le,
    "greaterthan": operator.gt,
    "greaterthanequals": operator.ge,
}
_POSITIVE: Final[Mapping[str, Compare]] = {
    "stringequals": _equals,
    "stringequalsignorecase": _equals_ignoring_case,
    "stringlike": _like,
    "arnequals": _arn_like,
    "arnlike": _arn_like,
    "bool": _bool,
    "ipaddress": _ip,
    "binaryequals": _binary,
    **{f"numeric{name}": _numbers(order) for name, order in _ORDERS.items()},
    **{f"date{name}": _dates(order) for name, order in _ORDERS.items()},
}
_NEGATED: Final[Mapping[str, str]] = {
    "stringnotequals": "stringequals",
    "stringnotequalsignorecase": "stringequalsignorecase",
    "stringnotlike": "stringlike",
    "arnnotequals": "arnequals",
    "arnnotlike": "arnlike",
    "numericnotequals": "numericequals",
    "datenotequals": "dateequals",
    "notipaddress": "ipaddress",
}
OPERATORS: Final[Sequence[str]] = ("null", *_POSITIVE, *_NEGATED)
"""Every operator, in lower case, without `ForAllValues:`, `ForAnyValue:` and `IfExists`."""
