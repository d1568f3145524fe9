"""The grammar of metric math: text to a tree, by precedence; nothing is evaluated here.

Source: CloudWatch user guide, *Using metric math*: functions and constants in upper case, ids begin with a lower case
letter. The guide gives no table of precedence; it is that of arithmetic everywhere: `^`, unary minus, `* /`, `+ -`,
comparisons, `AND`, `OR`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from local.cloudwatch.math_values import MathError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[-+*/^<>(),\[\]]))",
    re.ASCII,
)
_SPELLINGS: Final = {"&&": "AND", "||": "OR"}
_LEVELS: Final = (
    frozenset({"OR"}),
    frozenset({"AND"}),
    frozenset({"==", "!=", "<=", ">=", "<", ">"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/"}),
)
"""Operators that group to the left, the loosest first."""
_MOST_DEPTH = 64
"""Of parentheses and of powers of powers: a bound of ours on what 1,024 characters (API MetricDataQuery) could nest."""


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar."""

    value: float


@dataclass(frozen=True, slots=True)
class Text:
    """A string, which only METRICS takes."""

    value: str


@dataclass(frozen=True, slots=True)
class Reference:
    """The id of a metric or of another expression."""

    id: str


@dataclass(frozen=True, slots=True)
class Word:
    """A constant such as REPEAT or DESC."""

    name: str


@dataclass(frozen=True, slots=True)
class Negative:
    """Unary minus."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands and an operator; `&&` is AND, `||` is OR."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """Several time series between brackets."""

    items: tuple[Node, ...]


Node = Number | Text | Reference | Word | Negative | Binary | Call | Array


def parse(expression: str) -> Node:
    """Give the tree of an expression.

    Raises:
        MathError: it is none.

    """
    reader = _Reader(expression)
    tree = reader.operation(0)
    reader.end()
    return tree


def references(node: Node) -> frozenset[str]:
    """Give every id that a tree names."""
    found, left = set[str](), [node]
    while left:
        match left.pop():
            case Reference(id=name):
                found.add(name)
            case Negative(operand=operand):
                left.append(operand)
            case Binary(left=one, right=other):
                left += (one, other)
            case Call(arguments=nodes) | Array(items=nodes):
                left += nodes
            case _:
                pass
    return frozenset(found)


class _Reader:
    """Reads tokens one by one, by recursive descent."""

    def __init__(self, expression: str) -> None:
        self._tokens = list(_tokens(expression))
        self._at = 0
        self._depth = 0

    def end(self) -> None:
        """Refuse what follows a whole expression."""
        if self._kind() != "end":
            raise MathError(f"Invalid syntax: got {self._word()} after the end")

    def operation(self, level: int) -> Node:
        """Read operands that operators of this level or tighter ones join."""
        if level == len(_LEVELS):
            return self._signed()
        self._depth += 1
        if self._depth > _MOST_DEPTH * len(_LEVELS):
            raise MathError(f"Invalid syntax: nested deeper than {_MOST_DEPTH}")
        node = self.operation(level + 1)
        while self._operator() in _LEVELS[level]:
            operator = self._operator()
            self._at += 1
            node = Binary(operator, node, self.operation(level + 1))
        self._depth -= 1
        return node

    def _signed(self) -> Node:
        minus = False
        while self._word() == "-" and self._kind() == "sign":
            self._at += 1
            minus = not minus
        node = self._power()
        return Negative(node) if minus else node

    def _power(self) -> Node:
        bases = [self._operand()]
        while self._take("^"):
            bases.append(self._exponent())
        if len(bases) > _MOST_DEPTH:
            raise MathError(f"Invalid syntax: nested deeper than {_MOST_DEPTH}")
        node = bases.pop()
        while bases:
            node = Binary("^", bases.pop(), node)
        return node

    def _exponent(self) -> Node:
        return Negative(self._operand()) if self._take("-") else self._operand()

    def _operand(self) -> Node:
        kind, word = self._kind(), self._word()
        self._at += 1
        if kind == "number":
            return Number(float(word))
        if kind == "text":
            return Text(word[1:-1])
        if kind == "name" and word not in {"AND", "OR"}:
            return self._named(word)
        if word == "(":
            node = self.operation(0)
            self._close(")")
            return node
        if word == "[":
            return Array(self._list("]"))
        raise MathError(f"Invalid syntax: got {word}; allowed: a number, an id, a function or a parenthesis")

    def _named(self, name: str) -> Node:
        if self._take("("):
            return Call(name, () if self._take(")") else self._list(")"))
        return Reference(name) if name[0].islower() else Word(name)

    def _list(self, closing: str) -> tuple[Node, ...]:
        items = [self.operation(0)]
        while self._take(","):
            items.append(self.operation(0))
        self._close(closing)
        return tuple(items)

    def _close(self, sign: str) -> None:
        if not self._take(sign):
            raise MathError(f"Invalid syntax: got {self._word()}; allowed: {sign}")

    def _take(self, sign: str) -> bool:
        found = self._kind() == "sign" and self._word() == sign
        self._at += found
        return found

    def _operator(self) -> str:
        kind, word = self._tokens[self._at]
        return _SPELLINGS.get(word, word) if kind == "sign" or word in {"AND", "OR"} else ""

    def _kind(self) -> str:
        return self._tokens[self._at][0]

    def _word(self) -> str:
        return self._tokens[self._at][1]


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    """Give kind and text of each token, then the end."""
    at, text = 0, expression.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise MathError(f"Invalid syntax: got {text[at:].lstrip()[:1]} at character {at}")
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()
    yield "end", "the end"
