"""Chance and size of a difference between two sets of counts, and what is left of chance among many features."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEAST_EXPECTED = 5.0
"""Rows a bin must be expected to hold for the chi-square to hold (Cochran 1954)."""

_LEAST_COUNT = 0.5


def chi_square_tail(statistic: float, degrees: int) -> float:
    """Give P(chi-square with `degrees` ≥ statistic), exactly, in closed form (Abramowitz & Stegun 26.4.4-5)."""
    if degrees < 1 or statistic <= 0:
        return 1.0
    half = statistic / 2
    odd = degrees % 2 == 1
    tail = math.erfc(math.sqrt(half)) if odd else 0.0
    steps = range((degrees - 1) // 2) if odd else range(degrees // 2)
    offset = 0.5 if odd else 0.0
    terms = (math.exp(-half + (i + offset) * math.log(half) - math.lgamma(i + offset + 1)) for i in steps)
    return min(1.0, tail + math.fsum(terms))


def pool_rare(reference: Floats, current: Floats) -> tuple[Floats, Floats]:
    """Put bins that both sides together hardly fill into one, so that a single odd row is no event."""
    totals, all_rows = reference + current, reference.sum() + current.sum()
    least = totals * min(reference.sum(), current.sum()) / all_rows
    rare = least < LEAST_EXPECTED
    if not rare.any():
        return reference, current
    if least[rare].sum() < LEAST_EXPECTED and not rare.all():
        rare[np.argmin(np.where(rare, np.inf, least))] = True
    return (
        np.append(reference[~rare], reference[rare].sum()),
        np.append(current[~rare], current[rare].sum()),
    )


def homogeneity(reference: Floats, current: Floats) -> tuple[float, float]:
    """Give Pearson's chi-square of two rows of counts being of one distribution, and its p-value."""
    rows, columns = np.array([reference.sum(), current.sum()]), reference + current
    used = columns > 0
    table = np.stack((reference, current))[:, used]
    expected = np.outer(rows, columns[used]) / rows.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return statistic, chi_square_tail(statistic, int(used.sum()) - 1)


def stability_index(reference: Floats, current: Floats) -> float:
    """Give the population stability index; an empty bin counts as half a row."""
    ours = np.maximum(current, _LEAST_COUNT) / current.sum()
    theirs = np.maximum(reference, _LEAST_COUNT) / reference.sum()
    return float(((ours - theirs) * np.log(ours / theirs)).sum())


def chance_index(bins: int, reference_rows: float, current_rows: float) -> float:
    """Give the index that no drift at all shows on average: (bins - 1)(1/n + 1/m) (Yurdakul 2018)."""
    return (bins - 1) * (1 / reference_rows + 1 / current_rows)


def discoveries(p_values: Sequence[float], *, rate: float) -> list[bool]:
    """Say which differences stand when at most this share of them may be false (Benjamini & Hochberg 1995)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    last = max((at for at, index in enumerate(order, 1) if p_values[index] <= rate * at / len(order)), default=0)
    kept = set(order[:last])
    return [index in kept for index in range(len(p_values))]
