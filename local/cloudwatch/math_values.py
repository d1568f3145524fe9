"""What an expression of metric math is made of: scalars, time series and arrays of them, and how operators join them.

Source: CloudWatch user guide, *Using metric math*: a value that one of two series lacks counts as 0; a result that is
no number (a division by zero) is dropped.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from serving.errors import LocalStackError


class MathError(LocalStackError):
    """An expression that CloudWatch would not take, or that is not evaluated here."""


@dataclass(frozen=True, slots=True)
class Series:
    """One time series.

    `times` are the starts of all periods of `period_s` that were asked for, oldest first, in seconds; `values` has the
    value of each that has one. A time without a value is a missing datapoint.
    """

    period_s: float
    times: tuple[float, ...]
    values: Mapping[float, float]

    def map(self, change: Callable[[float], float]) -> Series:
        """Give the series of changed values; those that are no number are dropped."""
        return self.of({time: change(value) for time, value in self.values.items()})

    def of(self, values: Mapping[float, float]) -> Series:
        """Give other values at the same times."""
        return Series(
            self.period_s, self.times, {t: values[t] for t in self.times if math.isfinite(values.get(t, math.nan))}
        )

    def ordered(self) -> list[tuple[float, float]]:
        """Give time and value of each datapoint, oldest first."""
        return [(time, self.values[time]) for time in self.times if time in self.values]


Arrays = tuple[Series, ...]
Value = float | Series | Arrays
"""S, TS and TS[] of the guide; a scalar that does not exist (the greatest of nothing) is not a number."""


def kind(value: object) -> str:
    """Give the guide's abbreviation of a value's type."""
    if isinstance(value, Series):
        return "TS"
    if isinstance(value, tuple):
        return "TS[]"
    return "S" if isinstance(value, float) else "constant"


def _power(base: float, exponent: float) -> float:
    result = base**exponent
    return result if isinstance(result, float) else math.nan  # a negative base and a fraction: a complex number


_OPERATORS: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "^": _power,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "AND": lambda left, right: left != 0 and right != 0,
    "OR": lambda left, right: left != 0 or right != 0,
}


def operate(name: str, left: Value, right: Value) -> Value:
    """Give what an operator makes of two values.

    Raises:
        MathError: both are arrays.

    """
    if isinstance(left, tuple) and isinstance(right, tuple):
        raise MathError(f"Operator '{name}': got TS[] and TS[]; allowed: at most one array")
    if isinstance(left, tuple):
        return tuple(_operate(name, item, right) for item in left)
    if isinstance(right, tuple):
        return tuple(_operate(name, left, item) for item in right)
    if isinstance(left, float) and isinstance(right, float):
        return _number(name, left, right)
    return _operate(name, left, right)


def negative(value: Value) -> Value:
    """Give unary minus."""
    return operate("-", 0.0, value) if not isinstance(value, float) else -value


def joined(*series: Series) -> Series:
    """Give a series without values over the times of all."""
    times = sorted({time for one in series for time in one.times})
    return Series(max(one.period_s for one in series), tuple(times), {})


def _operate(name: str, left: Value, right: Value) -> Series:
    if isinstance(left, Series) and isinstance(right, Series):
        both = left.values.keys() | right.values.keys()
        values = {time: _number(name, left.values.get(time, 0.0), right.values.get(time, 0.0)) for time in both}
        return joined(left, right).of(values)
    if isinstance(left, Series) and isinstance(right, float):
        return left.map(lambda value: _number(name, value, right))
    if isinstance(left, float) and isinstance(right, Series):
        return right.map(lambda value: _number(name, left, value))
    raise MathError(f"Operator '{name}': got {kind(left)} and {kind(right)}; allowed: S, TS, TS[]")


def _number(name: str, left: float, right: float) -> float:
    """Give the result, or not a number where there is none."""
    if math.isnan(left) or math.isnan(right):
        return math.nan
    try:
        return float(_OPERATORS[name](left, right))
    except (ZeroDivisionError, OverflowError):
        return math.nan
