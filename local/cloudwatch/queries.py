"""A list of MetricDataQuery, as PutMetricAlarm and GetMetricData take it: checked, then evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from local.cloudwatch.math_evaluation import Request, evaluate
from local.cloudwatch.math_syntax import Node, parse, references
from local.cloudwatch.math_values import MathError, Series, Value
from local.cloudwatch.samples import Statistic
from serving.errors import LocalStackError

_ID: Final = re.compile(r"[a-z][A-Za-z0-9_]*", re.ASCII)
_LONGEST_EXPRESSION: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric to read: its key as AWS writes it, with the Unit if one is asked for."""

    key: Mapping[str, Any]
    statistic: Statistic
    period_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One MetricDataQuery: `source` is a metric, or an expression as a tree."""

    id: str
    label: str
    source: Metric | Node
    period_s: float | None
    returns: bool


ReadMetric = Callable[[Metric], Series]
Times = Callable[[float], tuple[float, ...]]
"""Gives the starts of all periods of that length that are asked for, oldest first."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries in an order in which each comes after those that it names."""

    ordered: tuple[Query, ...]
    asked: tuple[str, ...]

    @classmethod
    def of(cls, documents: Sequence[Mapping[str, Any]]) -> Queries:
        """Give the queries of a request.

        Raises:
            MathError: one of them is not what CloudWatch takes, or is not evaluated here.

        """
        queries = {str(document.get("Id")): _query(document) for document in documents}
        if len(queries) != len(documents):
            raise MathError(f"The values for parameter id in the metrics list must be unique: got {_ids(documents)}")
        for query in queries.values():
            for name in sorted(_needs(query)):
                if name not in queries:
                    raise MathError(
                        f"Error in expression '{query.id}': Invalid syntax: got id {name}, which is not given"
                    )
        found = cls(_ordered(queries), tuple(queries))
        found.evaluate(lambda metric: Series(metric.period_s, (), {}), lambda _: ())
        return found

    @property
    def watched(self) -> Query:
        """The one query that returns data.

        Raises:
            MathError: none or several do.

        """
        returning = [query for query in self.ordered if query.returns]
        if len(returning) != 1:
            raise MathError("Exactly one element of the metrics list should return data.")
        return returning[0]

    @property
    def period_s(self) -> float:
        """How long a period of the watched query is.

        Its own Period, or the longest of the metrics that there are. What AWS does with metrics of different periods
        is not documented.
        """
        watched = self.watched
        if watched.period_s is not None:
            return watched.period_s
        known = [query.period_s for query in self.ordered if query.period_s is not None]
        if not known:
            raise MathError(f"Period must not be null: got none for '{watched.id}', which names no metric")
        return max(known)

    def evaluate(self, read: ReadMetric, times: Times) -> dict[str, Value]:
        """Give the value of each query by id: a time series or an array of them.

        Args:
            read: gives a metric's time series.
            times: for expressions that have a value at every period.

        Raises:
            MathError: an expression has no such value.

        """
        metrics = {query.id: read(query.source) for query in self.ordered if isinstance(query.source, Metric)}
        periods = [series.period_s for series in metrics.values()]
        results: dict[str, Value] = {}
        for query in self.ordered:
            if isinstance(query.source, Metric):
                continue
            period_s = query.period_s or max(periods, default=60.0)
            request = Request(metrics=metrics, results=results, times=times(period_s), period_s=period_s)
            results[query.id] = _result(query, query.source, request)
        return {**metrics, **results}


def _result(query: Query, node: Node, request: Request) -> Value:
    try:
        value = evaluate(node, request)
    except MathError as error:
        raise MathError(f"Error in expression '{query.id}': {error}") from error
    if isinstance(value, float):
        raise MathError(f"Error in expression '{query.id}': got a number; allowed: one or more time series")
    return value


def _query(document: Mapping[str, Any]) -> Query:
    name = str(document.get("Id", ""))
    if not _ID.fullmatch(name):
        raise MathError(f"Id: got {name or 'none'}; allowed: letters, digits and _, the first a small letter")
    expression, stat = document.get("Expression"), document.get("MetricStat")
    if (expression is None) == (stat is None):
        raise MathError(f"'{name}': got {'both' if stat else 'none'}; allowed: one of Expression and MetricStat")
    period = document.get("Period")
    source = _metric(name, stat) if stat is not None else _tree(name, str(expression))
    label = stat["Metric"]["MetricName"] if stat is not None else name
    return Query(
        id=name,
        label=str(document.get("Label", label)),
        source=source,
        period_s=source.period_s if isinstance(source, Metric) else float(period) if period else None,
        returns=bool(document.get("ReturnData", True)),
    )


def _metric(name: str, stat: Mapping[str, Any]) -> Metric:
    try:
        statistic = Statistic.named(str(stat.get("Stat", "")))
    except LocalStackError as error:
        raise MathError(f"'{name}': {error}") from error
    period_s = float(stat["Period"])
    if period_s <= 0:  # CloudWatch takes fewer; the stack's page asks for a quarter of a minute times the pace
        raise MathError(f"'{name}': Period: got {period_s:g}; allowed: 1 or more")
    unit = {"Unit": stat["Unit"]} if stat.get("Unit") else {}
    return Metric(key={**stat["Metric"], **unit}, statistic=statistic, period_s=period_s)


def _tree(name: str, expression: str) -> Node:
    if expression.lstrip().upper().startswith("SELECT "):
        raise MathError(f"Error in expression '{name}': Metrics Insights queries are not in the local stack")
    if not 0 < len(expression) <= _LONGEST_EXPRESSION:
        raise MathError(f"Error in expression '{name}': got {len(expression)} characters; allowed: 1 to 1024")
    try:
        return parse(expression)
    except MathError as error:
        raise MathError(f"Error in expression '{name}': {error}") from error


def _needs(query: Query) -> frozenset[str]:
    return frozenset() if isinstance(query.source, Metric) else references(query.source)


def _ordered(queries: Mapping[str, Query]) -> tuple[Query, ...]:
    sorter = TopologicalSorter[str](dict.fromkeys(queries, ()))  # METRICS gives metrics in the order of the request
    for name, query in queries.items():
        sorter.add(name, *sorted(_needs(query)))
    try:
        names = tuple(sorter.static_order())
    except CycleError as error:
        raise MathError(f"Error in expression '{error.args[1][0]}': it depends on itself") from error
    return tuple(queries[name] for name in names)


def _ids(documents: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(str(document.get("Id")) for document in documents)
