"""Patterns of IAM policies: `*`, `?` and policy variables, matched without a regular expression.

IAM User Guide, "IAM JSON policy elements: Resource" and "Variables and tags".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

Context = Mapping[str, tuple[str, ...]]
"""The request context: values by condition key, whose names are lower-case."""

_VARIABLE: Final = re.compile(r"\$\{([^{}]*)\}")
_DEFAULT: Final = re.compile(r"^(?P<key>[^,]+?)\s*,\s*'(?P<default>[^']*)'$")
_LITERALS: Final = frozenset("*?$")


class Wild(Enum):
    """What stands for other characters."""

    ANY = "*"
    ONE = "?"


Token = str | Wild


def tokens(pattern: str, context: Context, *, variables: bool) -> tuple[Token, ...] | None:
    """Give the pattern's characters and wildcards; None when it names a variable that the request does not have.

    What a variable stands for is literal: its `*` matches a `*`. Without `variables` (policies of version
    2008-10-17) `${...}` is plain text.
    """
    found: list[Token] = []
    at = 0
    for variable in _VARIABLE.finditer(pattern) if variables else ():
        found += _wild(pattern[at : variable.start()])
        value = _value(variable[1], context)
        if value is None:
            return None
        found += value
        at = variable.end()
    return (*found, *_wild(pattern[at:]))


def matches(pattern: Sequence[Token], value: str) -> bool:
    """Say whether the whole value fits, in time proportional to the product of both lengths at most."""
    at = 0
    star, retry = -1, 0
    position = 0
    while position < len(value):
        token = pattern[at] if at < len(pattern) else None
        if token is Wild.ANY:
            star, retry = at, position
            at += 1
        elif token is Wild.ONE or (token is not None and token == value[position]):
            at += 1
            position += 1
        elif star >= 0:
            retry += 1
            at, position = star + 1, retry
        else:
            return False
    return all(token is Wild.ANY for token in pattern[at:])


def _wild(text: str) -> list[Token]:
    return [Wild(character) if character in "*?" else character for character in text]


def _value(name: str, context: Context) -> str | None:
    if name in _LITERALS:
        return name
    given = _DEFAULT.match(name)
    key, default = (given["key"], given["default"]) if given else (name, None)
    values = context.get(key.strip().lower(), ())
    return values[0] if len(values) == 1 else default
