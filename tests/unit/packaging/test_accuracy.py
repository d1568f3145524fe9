"""The measures of quantisation, against scikit-learn and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import accuracy_score, roc_auc_score

from model_packaging.accuracy import METRICS, NEEDS, Truth
from serving.spec.quantisation import Metric

ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), min_size=2, max_size=60)


def measured(metric: Metric, answers: list[float] | np.ndarray, **columns: object) -> float:
    array = np.asarray(answers, dtype=np.float32).reshape(len(answers), -1)
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    return METRICS[metric](array, Truth(**{"reference": array, **arrays}))  # type: ignore[arg-type]


def test_every_metric_says_what_it_needs() -> None:
    assert METRICS.keys() == NEEDS.keys()


@given(ROWS)
def test_auc_is_that_of_scikit_learn_with_ties(rows: list[tuple[int, int]]) -> None:
    scores, target = [float(score) for score, _ in rows], [label for _, label in rows]
    assume(len(set(target)) == 2)
    assert measured("auc", scores, target=target) == pytest.approx(roc_auc_score(target, scores))


@given(ROWS)
def test_spearman_is_that_of_scipy_with_ties(rows: list[tuple[int, int]]) -> None:
    scores, target = [float(score) for score, _ in rows], [label for _, label in rows]
    assume(len(set(target)) == 2 and len(set(scores)) > 1)
    assert measured("spearman", scores, target=target) == pytest.approx(spearmanr(scores, target).statistic)


def test_accuracy_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    answers, target = rng.random((50, 3)), rng.integers(0, 3, 50)
    assert measured("accuracy", answers, target=target) == accuracy_score(target, answers.argmax(axis=1))


def test_agreement_is_with_the_model_before() -> None:
    before = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.5, 0.4]])
    after = np.array([[0.8, 0.2], [0.7, 0.3], [0.9, 0.1], [0.1, 0.9]])
    assert measured("agreement", after, reference=before) == 0.5
    assert measured("agreement", before, reference=before) == 1.0


def test_value_at_1_is_the_mean_over_groups_of_the_best_rows_target() -> None:
    scores = [0.1, 0.9, 0.5, 0.7, 0.7]
    assert measured("value_at_1", scores, target=[5.0, 1.0, 9.0, 3.0, 8.0], group=[4, 4, 2, 2, 2]) == (1.0 + 3.0) / 2


@pytest.mark.parametrize(
    ("metric", "scores", "target"), [("auc", [1.0, 2.0], [1, 1]), ("spearman", [1.0, 1.0], [1, 2])]
)
def test_a_measure_of_nothing_is_no_number(metric: Metric, scores: list[float], target: list[int]) -> None:
    assert np.isnan(measured(metric, scores, target=target))
