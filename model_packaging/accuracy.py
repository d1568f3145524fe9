"""How good answers are: five measures, each 1 at best, of answers against what is true."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from serving.protocol.tensors import Array
from serving.spec.quantisation import Metric

Column = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What answers are held against, a row each; a metric reads what it needs of it.

    `reference` are the answers of the model before it was changed.
    """

    reference: Array
    target: Array | None = None
    group: Array | None = None


def accuracy(answers: Array, truth: Truth) -> float:
    """Share of rows whose largest column is the target's class."""
    return float(np.mean(answers.argmax(axis=-1).ravel() == _given(truth.target).ravel()))


def agreement(answers: Array, truth: Truth) -> float:
    """Share of rows whose largest column is that of the model before."""
    return float(np.mean(answers.argmax(axis=-1) == truth.reference.argmax(axis=-1)))


def auc(answers: Array, truth: Truth) -> float:
    """Probability that a row of target 1 scores above one of target 0, ties counted half (Mann-Whitney)."""
    return area_under_curve(answers, _given(truth.target) > 0)


def spearman(answers: Array, truth: Truth) -> float:
    """Rank correlation with the target."""
    return rank_correlation(answers, _given(truth.target))


def value_at_1(answers: Array, truth: Truth) -> float:
    """Mean over groups of the target of the row that scores highest, its first one where several do."""
    scores, values, groups = answers.ravel(), _given(truth.target).ravel(), _given(truth.group).ravel()
    order = np.lexsort((np.arange(len(scores)), -scores, groups))
    first = np.unique(groups[order], return_index=True)[1]
    return float(values[order][first].mean())


METRICS: Mapping[Metric, Callable[[Array, Truth], float]] = {
    "accuracy": accuracy,
    "agreement": agreement,
    "auc": auc,
    "spearman": spearman,
    "value_at_1": value_at_1,
}

NEEDS: Mapping[Metric, tuple[str, ...]] = {
    "accuracy": ("target",),
    "agreement": (),
    "auc": ("target",),
    "spearman": ("target",),
    "value_at_1": ("target", "group"),
}
"""The columns of an evaluation set that each metric reads, beside the inputs."""

OF_CLASSES: frozenset[Metric] = frozenset({"accuracy", "agreement"})
"""The metrics of answers with a column a class; the others take one score a row."""


def area_under_curve(scores: npt.NDArray[Any], positive: npt.NDArray[np.bool_]) -> float:
    """Give the area under the ROC curve; not a number where one of the two classes is missing."""
    hits = int(positive.sum())
    misses = positive.size - hits
    if not hits or not misses:
        return float("nan")
    return float((ranks(scores.ravel())[positive.ravel()].sum() - hits * (hits + 1) / 2) / (hits * misses))


def rank_correlation(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> float:
    """Give Spearman's correlation; not a number where one side is constant."""
    a, b = (ranks(values.ravel()) - (values.size + 1) / 2 for values in (left, right))
    norm = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / norm if norm else float("nan")


def ranks(values: npt.NDArray[Any]) -> Column:
    """Give ranks from 1; equal values share their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[place.ravel()], dtype=np.float64)


def _given(column: Array | None) -> Array:
    if column is None:
        raise TypeError("the evaluation set lacks a column that its metric needs")
    return column
