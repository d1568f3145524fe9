"""What may be done to a version's weights when it is packaged, and how much worse its answers may become by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

QuantisationKind = Literal["fp16", "int8-dynamic", "int8-static"]

Metric = Literal["accuracy", "agreement", "auc", "spearman", "value_at_1"]
"""Measures of how good answers are, each 1 at best and higher where better (`model_packaging/accuracy.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisationSpec:
    """How weights in FP32 are made smaller, and the largest loss of the metric that is accepted.

    Paths are from the model folder, to arrays in NumPy's `.npz`: inputs by name, and `target` (and `group`) where the
    metric needs them. `output` is the output that is measured; empty: the first one.
    """

    kind: QuantisationKind
    evaluation: str
    metric: Metric
    max_loss: float
    calibration: str = ""
    output: str = ""
