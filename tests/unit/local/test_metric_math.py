"""Expected values: the tables and rules of *Using metric math* (CloudWatch user guide), and numpy on random series."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.cloudwatch.math_evaluation import Request, evaluate
from local.cloudwatch.math_syntax import parse, references
from local.cloudwatch.math_values import MathError, Series, Value

Floats = npt.NDArray[np.float64]
PERIOD_S = 60.0
BEGIN_S = datetime(2026, 12, 1, 23, 58, tzinfo=UTC).timestamp()
GAP = None


def times(count: int) -> tuple[float, ...]:
    return tuple(BEGIN_S + index * PERIOD_S for index in range(count))


def series(*values: float | None) -> Series:
    grid = times(len(values))
    known = {time: float(value) for time, value in zip(grid, values, strict=True) if value is not None}
    return Series(PERIOD_S, grid, known)


def value_of(expression: str, **metrics: Series) -> Value:
    count = max((len(one.times) for one in metrics.values()), default=5)
    request = Request(metrics=metrics, results={}, times=times(count), period_s=PERIOD_S)
    return evaluate(parse(expression), request)


def points(expression: str, **metrics: Series) -> list[float | None]:
    found = value_of(expression, **metrics)
    assert isinstance(found, Series), found
    return [found.values.get(time) for time in found.times]


METRIC1, METRIC2 = series(30, 20, 0, 0), series(20, GAP, 20, GAP)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(metric1 < metric2)", [0, 0, 1, 0]),
        ("(metric1 >= 30)", [1, 0, 0, 0]),
        ("(metric1 > 15 AND metric2 > 15)", [1, 0, 0, 0]),
        ("metric1 > 15 && metric2 > 15", [1, 0, 0, 0]),
        ("metric1 == 0 || metric2 == 20", [1, 0, 1, 1]),
    ],
)
def test_comparisons_are_those_of_the_guides_table(expression: str, expected: list[float]) -> None:
    assert points(expression, metric1=METRIC1, metric2=METRIC2) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("IF(m1, m2, m3)", [30, 0, 20, GAP, GAP]),
        ("IF(m1, 5, m3)", [5, 5, 20, GAP, GAP]),
        ("IF(m1, m2, 5)", [30, 0, 5, 5, GAP]),
        ("IF(m1, m2)", [30, 0, GAP, GAP, GAP]),
        ("IF(m1, 10, 2)", [10, 10, 2, 2, GAP]),
        ("IF(1, m2, m3)", [30, GAP, 0, 0, 30]),
        ("IF(0, m2, m3)", [0, 0, 20, GAP, 20]),
        ("IF(0, m2)", [GAP] * 5),
        ("IF(-1 * m1, m2, 5)", [30, 0, 5, 5, GAP]),
    ],
)
def test_if_chooses_as_in_the_guides_tables(expression: str, expected: list[float | None]) -> None:
    found = points(expression, m1=series(1, 1, 0, 0, GAP), m2=series(30, GAP, 0, 0, 30), m3=series(0, 0, 20, GAP, 20))
    assert found == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("m1 / m2", [0.5, GAP, GAP, 0.0]),
        ("m1 + m2", [3, 3, 0, 4]),
        ("AVG([m1, m2])", [1.5, 1.5, 0, 2]),
        ("MIN([m1, m2])", [1, 3, 0, 4]),
        ("SUM(METRICS())", [3, 3, 0, 4]),
        ('SUM(METRICS("2"))', [2, GAP, 0, 4]),
        ("m1 / PERIOD(m1)", [1 / 60, 0.05, 0, GAP]),
        ("m1 - AVG(m1)", [1 - 4 / 3, 3 - 4 / 3, -4 / 3, GAP]),
        ("m1 / METRIC_COUNT(METRICS())", [0.5, 1.5, 0, GAP]),
        ("FILL(m1, 10)", [1, 3, 0, 10]),
        ("FILL(m1, REPEAT)", [1, 3, 0, 0]),
        ("FILL(m2, LINEAR)", [2, 1, 0, 4]),
        ("FILL(m2, m1)", [2, 3, 0, 4]),
        ("FILL(m1, MIN(m1))", [1, 3, 0, 0]),
        ("DATAPOINT_COUNT(METRICS())", [2, 1, 2, 1]),
        ("DIFF_TIME(m2)", [GAP, GAP, 120, 60]),
        ("TIME_SERIES(MAX(m1))", [3, 3, 3, 3]),
        ("LOG10(m1)", [0, np.log10(3), GAP, GAP]),
        ("MAX(m1) / m1", [3, 1, GAP, GAP]),
        ("FIRST(SORT(METRICS(), SUM, DESC))", [2, GAP, 0, 4]),
        ("LAST(SORT(METRICS(), MAX, DESC))", [1, 3, 0, GAP]),
        ("SUM(SLICE(METRICS(), 1))", [2, GAP, 0, 4]),
        ("SUM(SLICE(METRICS(), 0, 1))", [1, 3, 0, GAP]),
        ("SUM(SORT(METRICS(), AVG, ASC, 1))", [1, 3, 0, GAP]),
        ("MINUTE(m1)", [58, 59, 0, 1]),
        ("HOUR(m1)", [23, 23, 0, 0]),
        ("DAY(m1)", [2, 2, 3, 3]),
        ("DATE(m1)", [1, 1, 2, 2]),
        ("MONTH(m1) + YEAR(m1)", [2038] * 4),
        ("EPOCH(m1) - EPOCH(m2)", [0] * 4),
        ("IF(DAY(m1) < 3, m1)", [1, 3, GAP, GAP]),
    ],
)
def test_functions_do_what_the_guides_table_says(expression: str, expected: list[float | None]) -> None:
    found = points(expression, m1=series(1, 3, 0, GAP), m2=series(2, GAP, 0, 4))
    assert found == [pytest.approx(value) if value is not None else None for value in expected]


@pytest.mark.parametrize(
    ("expression", "grouped"),
    [
        ("1 + 2 * m", "1 + (2 * m)"),
        ("m - 2 - 3", "(m - 2) - 3"),
        ("m / 2 / 4", "(m / 2) / 4"),
        ("2 ^ 3 ^ 2 * m", "(2 ^ (3 ^ 2)) * m"),
        ("-m ^ 2", "-(m ^ 2)"),
        ("m ^ -1", "m ^ (-1)"),
        ("m > 1 + 1", "m > (1 + 1)"),
        ("m > 1 OR m > 2 AND m < 0", "(m > 1) OR ((m > 2) AND (m < 0))"),
        ("m>1&&m<9", "(m > 1) AND (m < 9)"),
    ],
)
def test_operators_bind_as_in_arithmetic(expression: str, grouped: str) -> None:
    metric = series(1, 2, 5, GAP)
    assert parse(expression) != parse("m")
    assert points(expression, m=metric) == points(grouped, m=metric)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("NOSUCH(m1)", "Function 'NOSUCH' not found"),
        ("SEARCH('{AWS/EC2,InstanceId} CPU', 'Average')", "Function 'SEARCH' is not in the local stack"),
        ("ANOMALY_DETECTION_BAND(m1, 2)", "Function 'ANOMALY_DETECTION_BAND' is not in the local stack"),
        ("INSIGHT_RULE_METRIC(\"r\", 'Sum')", "INSIGHT_RULE_METRIC"),
        ("METRICS() + METRICS()", r"TS\[\] and TS\[\]"),
        ("FILL(m1)", "Function 'FILL'"),
        ("FILL(m1, DESC)", "Function 'FILL'"),
        ("IF(1, 2, 3)", "Function 'IF'"),
        ("IF(METRICS(), 1, 0)", "Function 'IF'"),
        ("PERIOD(m1 + 1)", "PERIOD"),
        ("m1 + REPEAT", "REPEAT"),
        ("m1 + NOSUCH", "NOSUCH"),
        ("m9", "m9"),
        ("ABS(1)", "Function 'ABS'"),
        ("AVG()", "Function 'AVG'"),
        ("[1, m1]", "Array"),
        ('m1 + "x"', "METRICS only"),
        ("METRICS(1)", "METRICS"),
        ("SORT(m1, AVG, DESC)", "Function 'SORT'"),
        ("SLICE(METRICS(), -1)", "Function 'SLICE'"),
        *[
            (f"{function}{number})", "Function 'S")
            for function in ("SLICE(METRICS(), 0, ", "SORT(METRICS(), AVG, DESC, ")
            for number in ("1e999", "1e308 * 10", "0 / 0", "-1", "m1")
        ],
        ("m1 +", "Invalid syntax"),
        ("m1 m1", "Invalid syntax"),
        ("(m1", "Invalid syntax"),
        ("m1 = 1", "Invalid syntax"),
        ("__import__('os')", "not found"),
        ("m1.values", "Invalid syntax"),
        ("(" * 400 + "m1" + ")" * 400, "nested"),
        ("m1" + "^1" * 400, "nested"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_what_cloudwatch_would_not_take_is_an_error_with_or_without_datapoints(expression: str, said: str) -> None:
    for metric in (series(1, 2), series(GAP, GAP)):
        with pytest.raises(MathError, match=said):
            value_of(expression, m1=metric)


@given(expression=st.text(alphabet="m12 +-*/^<>=&|()[],.\"'ABSFILNORMETICX", max_size=60))
def test_any_text_is_a_value_or_an_error_of_its_own(expression: str) -> None:
    try:
        found = value_of(expression, m1=series(1, GAP), m2=series(0, 2))
    except MathError:
        return
    assert isinstance(found, float | Series | tuple)


@pytest.mark.parametrize("expression", ["+".join(["m1"] * 341), "-" * 1000 + "m1"])
def test_the_longest_expressions_are_evaluated(expression: str) -> None:
    assert len(expression) <= 1024
    assert points(expression, m1=series(2.0))


def test_references_are_every_id_that_is_named() -> None:
    tree = parse('IF(a > b, FILL([c, METRICS("d")], e), -f)')
    assert references(tree) == {"a", "b", "c", "e", "f"}


# what numpy makes of arrays in which NaN stands for a missing datapoint: an oracle that shares no code with ours
Oracle = Callable[[list[Floats]], Floats]
Case = tuple[str, Oracle]
COUNT = 6


def joined(operate: Callable[[Any, Any], Any], left: Floats, right: Floats) -> Floats:
    known = ~np.isnan(left) | ~np.isnan(right)
    with np.errstate(all="ignore"):
        result = np.asarray(operate(np.nan_to_num(left), np.nan_to_num(right)), dtype=float)
    return np.where(known & np.isfinite(result), result, np.nan)


def spread(change: Callable[[Floats, Any], Floats], values: Floats, *, skip: int = 0) -> Floats:
    """Apply a change to the known values and their times; the first `skip` have no result."""
    known = np.flatnonzero(~np.isnan(values))
    result = np.full(COUNT, np.nan)
    if len(known) > skip:
        result[known[skip:]] = change(values[known], known * PERIOD_S)
    return result


def repeated(values: Floats) -> Floats:
    last = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(COUNT)))
    return np.where(last >= 0, values[last], np.nan)


def interpolated(values: Floats) -> Floats:
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return values
    line = np.interp(np.arange(COUNT), known, values[known], left=np.nan, right=np.nan)
    return np.asarray(line, dtype=float)


def aggregated(reduce: Callable[..., Any], *parts: Floats) -> Floats:
    stacked = np.vstack(parts)
    some = ~np.isnan(stacked).all(axis=0)
    result = np.full(COUNT, np.nan)
    if some.any():
        result[some] = reduce(stacked[:, some], axis=0)
    return result


def chosen(condition: Floats, then: Floats, other: Floats) -> Floats:
    return np.where(np.isnan(condition), np.nan, np.where(condition != 0, np.nan_to_num(then), other))


def mean_with_zeros(stacked: Floats, axis: int) -> Floats:
    return np.asarray(np.nan_to_num(stacked).mean(axis=axis), dtype=float)


def metric(index: int) -> Case:
    return f"m{index}", lambda arrays: arrays[index]


def paired_by(operate: Callable[[Any, Any], Any]) -> Callable[[Floats, Floats], Floats]:
    return lambda left, right: joined(operate, left, right)


METRICS = st.builds(metric, st.integers(0, 2))
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "<": np.less,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "AND": np.logical_and,
    "OR": np.logical_or,
}
UNARY: dict[str, Callable[[Floats], Floats]] = {
    "-({})": np.negative,
    "ABS({})": np.abs,
    "CEIL(({}) * 0.5)": lambda values: np.ceil(values * 0.5),
    "FLOOR(({}) * 0.5)": lambda values: np.floor(values * 0.5),
    "DIFF({})": lambda values: spread(lambda known, _: np.diff(known), values, skip=1),
    "RUNNING_SUM({})": lambda values: spread(lambda known, _: np.cumsum(known), values),
    "FILL({}, 3)": lambda values: np.where(np.isnan(values), 3, values),
    "FILL({}, REPEAT)": repeated,
}
PAIRED: dict[str, Callable[[Floats, Floats], Floats]] = {
    **{f"({{}}) {sign} ({{}})": paired_by(operate) for sign, operate in SIGNS.items()},
    "SUM([{}, {}])": lambda a, b: aggregated(np.nansum, a, b),
    "MAX([{}, {}])": lambda a, b: aggregated(np.nanmax, a, b),
    "MIN([{}, {}])": lambda a, b: aggregated(np.nanmin, a, b),
    "AVG([{}, {}])": lambda a, b: aggregated(mean_with_zeros, a, b),
    "IF({}, {}, 1)": lambda a, b: chosen(a, b, np.ones(COUNT)),
    "IF({}, 2, {})": lambda a, b: chosen(a, np.full(COUNT, 2.0), b),
    "FILL({}, {})": lambda a, b: np.where(np.isnan(a), b, a),
}
OUTERMOST: dict[str, Callable[[Floats, Floats], Floats]] = {
    "({}) / ({})": lambda a, b: joined(np.divide, a, b),
    "RATE({}) + 0 * ({})": lambda a, b: joined(np.add, spread(lambda v, t: np.diff(v) / np.diff(t), a, skip=1), b * 0),
    "FILL({}, LINEAR) - ({})": lambda a, b: joined(np.subtract, interpolated(a), b),
    "STDDEV([{}, {}])": lambda a, b: aggregated(np.nanstd, a, b),
}


def combined(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    def unary(case: Case, form: str) -> Case:
        text, oracle = case
        return form.format(text), lambda arrays: UNARY[form](oracle(arrays))

    return st.builds(unary, inner, st.sampled_from(sorted(UNARY))) | st.builds(
        paired, inner, inner, st.sampled_from(sorted(PAIRED))
    )


def paired(left: Case, right: Case, form: str) -> Case:
    act = PAIRED.get(form) or OUTERMOST[form]
    return form.format(left[0], right[0]), lambda arrays: act(left[1](arrays), right[1](arrays))


# sums and products of small whole numbers and their halves are exact, so that no rounding flips a comparison
EXACT = st.recursive(METRICS, combined, max_leaves=5)
CASES = EXACT | st.builds(paired, EXACT, EXACT, st.sampled_from(sorted(OUTERMOST)))
ARRAYS = st.lists(
    st.lists(st.sampled_from([np.nan, 0.0, 1.0, 2.0, -3.0, 5.0]), min_size=COUNT, max_size=COUNT),
    min_size=3,
    max_size=3,
)


@given(case=CASES, rows=ARRAYS)
def test_random_expressions_over_random_series_give_what_numpy_gives(case: Case, rows: list[list[float]]) -> None:
    expression, oracle = case
    arrays = [np.array(row) for row in rows]
    metrics = {
        f"m{index}": series(*(None if np.isnan(value) else value for value in row)) for index, row in enumerate(rows)
    }
    found = np.array([np.nan if value is None else value for value in points(expression, **metrics)])
    np.testing.assert_allclose(found, oracle(arrays), rtol=1e-9, atol=1e-9, err_msg=expression)
