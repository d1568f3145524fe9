"""Rules on what may be done to a version's weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from serving.spec.load import load_model
from serving.spec.model import VersionSpec
from serving.spec.quantisation import QuantisationKind, QuantisationSpec
from serving.spec.rules.version import conversions_fit_the_runtime
from serving.spec.runtime import TritonRuntime


@pytest.mark.parametrize(
    ("kind", "max_batch_size", "refused"),
    [("int8-dynamic", 512, True), ("int8-dynamic", 2, True), ("int8-dynamic", 1, False), ("int8-static", 512, False)],
)
def test_scales_that_a_whole_batch_shares_are_refused_where_requests_share_batches(
    root: Path, kind: QuantisationKind, max_batch_size: int, *, refused: bool
) -> None:
    spec = load_model(root, "recommendation_ranker")
    assert isinstance(spec.runtime, TritonRuntime)
    calibration = "c.npz" if kind == "int8-static" else ""
    asked = QuantisationSpec(kind=kind, evaluation="e.npz", calibration=calibration, metric="auc", max_loss=0.01)
    changed = replace(
        spec,
        runtime=replace(spec.runtime, max_batch_size=max_batch_size),
        versions={"9.0.0": VersionSpec(weights="w.onnx", quantisation=asked)},
    )
    found = [finding[1] for finding in conversions_fit_the_runtime(changed)]
    assert found == (["'int8-dynamic' with batches"] if refused else [])
