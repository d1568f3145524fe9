"""What a version's inputs and outputs looked like in training: fixed bins, so that counts merge by addition.

Bins of a feature with edges e0 < … < ek are (-inf, e0], (e0, e1], …, (ek, inf); NaN is counted as missing.
e0 lies just below the smallest reference value and ek on the largest: the first and the last bin hold what
the reference never showed, and are empty in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from cattrs import BaseValidationError

from serving.errors import TelemetryError
from serving.spec.codec import converter, failures

MAX_BINS = 100
"""Bins between the ends: more would be empty in a window, and a bin's number must fit a byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureBaseline:
    """One feature: ascending bin edges, the reference rows in each of `len(edges) + 1` bins, and the missing ones."""

    name: str
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    missing: int

    @property
    def rows(self) -> int:
        """All reference rows, missing ones too."""
        return sum(self.counts) + self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """All watched features of one version; travels in its manifest."""

    rows: int
    features: tuple[FeatureBaseline, ...]

    def to_dict(self) -> dict[str, object]:
        """Give the JSON form, as in `weights/<version>.baseline.json`."""
        plain: dict[str, object] = converter().unstructure(self)
        return plain


def make_baseline(columns: Mapping[str, npt.ArrayLike], *, bins: int = 10) -> Baseline:
    """Choose quantile bins for every column and count it into them.

    Args:
        columns: feature name → one value a row, any numeric type, NaN where missing; all of the same length.
        bins: quantile bins between the smallest and the largest value; fewer where values repeat.

    Raises:
        TelemetryError: no column, unequal lengths, a column without any value, or a number of bins that is
            not allowed.

    """
    if not 2 <= bins <= MAX_BINS:  # noqa: PLR2004 - one bin cannot show a change
        raise TelemetryError(f"bins: got {bins}; allowed 2 to {MAX_BINS}; 10 is usual")
    arrays = {name: np.asarray(column, dtype=np.float64).ravel() for name, column in columns.items()}
    sizes = {array.size for array in arrays.values()}
    if len(sizes) != 1:
        raise TelemetryError(f"columns: got lengths {sorted(sizes)}; allowed one length for all; pass one value a row")
    return Baseline(rows=sizes.pop(), features=tuple(_feature(name, array, bins) for name, array in arrays.items()))


def _feature(name: str, values: npt.NDArray[np.float64], bins: int) -> FeatureBaseline:
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        raise TelemetryError(f"column {name!r}: got no finite value; allowed at least one; drop the feature")
    inner = np.quantile(finite, np.arange(1, bins) / bins)
    edges = np.unique(np.concatenate(([np.nextafter(finite.min(), -np.inf)], inner, [finite.max()])))
    counts, missing = bin_counts(values, edges)
    return FeatureBaseline(name=name, edges=tuple(edges.tolist()), counts=tuple(counts.tolist()), missing=missing)


def bin_counts(values: npt.NDArray[np.float64], edges: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], int]:
    """Count values [rows] into `len(edges) + 1` bins; give the counts and how many were NaN."""
    present = values[~np.isnan(values)]
    places = np.searchsorted(edges, present, side="left")
    return np.bincount(places, minlength=edges.size + 1), values.size - present.size


def baseline_from_dict(document: Mapping[str, Any]) -> Baseline:
    """Read what `Baseline.to_dict` gave.

    Raises:
        TelemetryError: a key is missing or mistyped, edges do not ascend or are too many, or counts do not fit edges
            and rows.

    """
    try:
        baseline: Baseline = converter().structure(document, Baseline)
    except BaseValidationError as error:
        rows = "; ".join(f"{row.key}: got {row.got}, allowed {row.allowed}" for row in failures(error))
        raise TelemetryError(f"drift baseline: {rows}; make it with make_baseline") from error
    for feature in baseline.features:
        if any(low >= high for low, high in pairwise(feature.edges)):
            raise TelemetryError(f"drift baseline: {feature.name}: edges must ascend; make it with make_baseline")
        if len(feature.edges) > MAX_BINS + 1:
            raise TelemetryError(
                f"drift baseline: {feature.name}: got {len(feature.edges)} edges; allowed up to {MAX_BINS + 1}; "
                f"make it with make_baseline"
            )
        if len(feature.counts) != len(feature.edges) + 1 or feature.rows != baseline.rows:
            raise TelemetryError(
                f"drift baseline: {feature.name}: got {len(feature.counts)} counts of {feature.rows} rows; "
                f"allowed {len(feature.edges) + 1} counts of {baseline.rows} rows; make it with make_baseline"
            )
    return baseline
