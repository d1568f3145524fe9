"""Evaluates trees of metric math over the metrics of one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from local.cloudwatch.math_functions import FUNCTIONS, REFUSED, Argument, Arguments
from local.cloudwatch.math_syntax import Array, Binary, Call, Negative, Node, Number, Reference, Text, Word
from local.cloudwatch.math_values import MathError, Series, Value, kind, negative, operate

_CONSTANTS: Final = frozenset({"REPEAT", "LINEAR", "ASC", "DESC", "AVG", "MIN", "MAX", "SUM"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an expression may name: metrics and the results of other expressions, by id, and the periods asked for."""

    metrics: Mapping[str, Series]
    results: Mapping[str, Value]
    times: tuple[float, ...]
    period_s: float


def evaluate(node: Node, request: Request) -> Value:
    """Give the value of a tree.

    Raises:
        MathError: an unknown function or id, or arguments of wrong types. Which types there are does not depend on the
            datapoints, so a request whose series are empty raises it too.

    """
    value = _evaluate(node, request)
    if isinstance(value, Word):
        raise MathError(f"Invalid syntax: got {value.name}; allowed: it is an argument of FILL or SORT only")
    return value


def _evaluate(node: Node, request: Request) -> Argument:  # noqa: PLR0911 - one for each kind of node
    match node:
        case Number(value=number):
            return number
        case Reference(id=name):
            return _named(name, request)
        case Negative(operand=operand):
            return negative(evaluate(operand, request))
        case Binary():
            return _chained(node, request)
        case Array(items=items):
            return _array(items, request)
        case Call():
            return _called(node, request)
        case Word(name=name) if name in _CONSTANTS:
            return node
        case Word(name=name):
            raise MathError(f"Invalid syntax: got {name}; allowed: {', '.join(sorted(_CONSTANTS))}")
        case Text():
            raise MathError("Invalid syntax: got a string; allowed: it is an argument of METRICS only")


def _chained(node: Binary, request: Request) -> Value:
    """Give a chain of operators without recursion: it may be as long as the text."""
    chain, first = [node], node.left
    while isinstance(first, Binary):
        chain.append(first)
        first = first.left
    value = evaluate(first, request)
    for link in reversed(chain):
        value = operate(link.operator, value, evaluate(link.right, request))
    return value


def _named(name: str, request: Request) -> Value:
    if name in request.metrics:
        return request.metrics[name]
    if name in request.results:
        return request.results[name]
    raise MathError(f"Invalid syntax: got id {name}; allowed: {', '.join([*request.metrics, *request.results])}")


def _array(items: tuple[Node, ...], request: Request) -> tuple[Series, ...]:
    found: list[Series] = []
    for item in items:
        value = evaluate(item, request)
        if isinstance(value, float):
            raise MathError(f"Array: got {kind(value)}; allowed: TS, TS[]")
        found.extend(value if isinstance(value, tuple) else (value,))
    return tuple(found)


def _called(node: Call, request: Request) -> Value:
    name = node.function
    if name == "METRICS":
        return _metrics(node, request)
    if name == "PERIOD":
        return _period(node, request)
    if name in REFUSED:
        raise MathError(f"Function '{name}' is not in the local stack")
    if name not in FUNCTIONS:
        raise MathError(f"Function '{name}' not found")
    values = tuple(_evaluate(argument, request) for argument in node.arguments)
    return FUNCTIONS[name](Arguments(name, values, request.times, request.period_s))


def _metrics(node: Call, request: Request) -> tuple[Series, ...]:
    match node.arguments:
        case ():
            return tuple(request.metrics.values())
        case (Text(value=part),):
            return tuple(series for name, series in request.metrics.items() if part in name)
        case _:
            raise MathError("Function 'METRICS': got other arguments; allowed: none or one string")


def _period(node: Call, request: Request) -> float:
    match node.arguments:
        case (Reference(id=name),) if name in request.metrics:
            return request.metrics[name].period_s
        case _:
            raise MathError("Function 'PERIOD': got no metric; allowed: the id of a metric, not of an expression")
