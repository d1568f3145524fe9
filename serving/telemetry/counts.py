"""A window's rows as counts in a baseline's bins: exact, small whatever the window's size, merged by addition.

Rows of one request are alike (one user, many candidates), so each bin also keeps how its count varies between
requests: without that, fifty rows of one user would pass for fifty users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from serving.errors import TelemetryError
from serving.telemetry.baseline import Baseline, FeatureBaseline

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_BLOCK = 1 << 16
"""Values that stay in a core's cache while all edges pass over them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureCounts:
    """One feature: arrays over the baseline's bins, in their order, and the missing rows last.

    `counts` are rows; `squares` and `crosses` are sums over requests of (rows in the bin)² and of (rows in the bin)
    times (rows of the request). `total` and `total_squares` are of finite values, `lowest` and `highest` their ends.
    """

    name: str
    counts: Ints
    squares: Floats
    crosses: Floats
    total: float = 0.0
    total_squares: float = 0.0
    finite: int = 0
    lowest: float = np.inf
    highest: float = -np.inf

    def merge(self, other: FeatureCounts) -> FeatureCounts:
        """Add the counts of other rows."""
        return FeatureCounts(
            name=self.name,
            counts=self.counts + other.counts,
            squares=self.squares + other.squares,
            crosses=self.crosses + other.crosses,
            total=self.total + other.total,
            total_squares=self.total_squares + other.total_squares,
            finite=self.finite + other.finite,
            lowest=min(self.lowest, other.lowest),
            highest=max(self.highest, other.highest),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowCounts:
    """All watched features of a window; `row_squares` sums (rows of a request)²."""

    rows: int
    requests: int
    row_squares: float
    features: tuple[FeatureCounts, ...]

    def merge(self, other: WindowCounts) -> WindowCounts:
        """Add the counts of other requests against the same baseline."""
        return WindowCounts(
            rows=self.rows + other.rows,
            requests=self.requests + other.requests,
            row_squares=self.row_squares + other.row_squares,
            features=tuple(left.merge(right) for left, right in zip(self.features, other.features, strict=True)),
        )


def no_counts(baseline: Baseline) -> WindowCounts:
    """Give the counts of no row at all."""
    return fold(baseline, {feature.name: np.empty(0) for feature in baseline.features}, np.empty(0, dtype=np.int64))


def fold(baseline: Baseline, columns: Mapping[str, npt.ArrayLike], sizes: npt.ArrayLike) -> WindowCounts:
    """Count rows into the baseline's bins.

    Args:
        baseline: whose features and bins.
        columns: feature name → one value a row; NaN where missing.
        sizes: rows of each request, in the order of the rows.

    Raises:
        TelemetryError: a column is missing or has another number of rows than the requests together.

    """
    per_request = np.asarray(sizes, dtype=np.int64)
    rows = int(per_request.sum())
    owner = np.repeat(np.arange(per_request.size), per_request) if rows != per_request.size else per_request
    return WindowCounts(
        rows=rows,
        requests=per_request.size,
        row_squares=float((per_request.astype(np.float64) ** 2).sum()),
        features=tuple(
            _feature(feature, _column(columns, feature.name, rows), owner, per_request) for feature in baseline.features
        ),
    )


def _column(columns: Mapping[str, npt.ArrayLike], name: str, rows: int) -> Floats:
    if name not in columns:
        raise TelemetryError(
            f"drift feature {name!r}: got columns {', '.join(sorted(columns))}; allowed one of these; "
            f"correct [drift] features, or make the baseline with these names"
        )
    values = np.asarray(columns[name], dtype=np.float64).ravel()
    if values.size != rows:
        raise TelemetryError(f"drift feature {name!r}: got {values.size} values; allowed one for each of {rows} rows")
    return values


def _feature(feature: FeatureBaseline, values: Floats, owner: Ints, sizes: Ints) -> FeatureCounts:
    bins = len(feature.edges) + 2
    places, finite = _places(values, feature.edges)
    counts = np.bincount(places, minlength=bins)
    if values.size == sizes.size:
        squares = crosses = counts.astype(np.float64)
    else:
        table = np.bincount(owner * bins + places, minlength=sizes.size * bins).reshape(sizes.size, bins)
        table = table.astype(np.float64)
        squares, crosses = (table * table).sum(axis=0), sizes.astype(np.float64) @ table
    return FeatureCounts(
        name=feature.name,
        counts=counts,
        squares=squares,
        crosses=crosses,
        total=float(finite.sum()),
        total_squares=float(np.square(finite).sum()),
        finite=finite.size,
        lowest=float(finite.min(initial=np.inf)),
        highest=float(finite.max(initial=-np.inf)),
    )


def _places(values: Floats, edges: Sequence[float]) -> tuple[npt.NDArray[np.uint8], Floats]:
    """Give each value's bin, and the values that are finite.

    Counting the edges below a value takes a quarter of the time of a binary search, with a baseline's few edges.
    """
    places = np.zeros(values.size, dtype=np.uint8)
    for start in range(0, values.size, _BLOCK):
        block, into = values[start : start + _BLOCK], places[start : start + _BLOCK]
        for edge in edges:
            into += block > edge
    finite = np.isfinite(values)
    if finite.all():
        return places, values
    places[np.isnan(values)] = len(edges) + 1
    return places, values[finite]


def design_effect(feature: FeatureCounts, window: WindowCounts) -> float:
    """Give by how much rows of one request being alike widens the counts' variance; at least 1.

    The mean over bins, as first-order Rao & Scott (Annals of Statistics 12, 1984) divides a chi-square by it.
    """
    if window.requests < 2 or window.rows == 0:  # noqa: PLR2004 - a variance needs two
        return max(1.0, float(window.rows))
    share = feature.counts / window.rows
    used = share > 0
    if used.sum() < 2:  # noqa: PLR2004 - rows in one bin do not vary
        return 1.0
    spread = feature.squares - 2 * share * feature.crosses + share**2 * window.row_squares
    effects = spread[used] / (window.rows * share[used])
    return max(1.0, float(effects.sum()) * window.requests / (window.requests - 1) / float(used.sum() - 1))
