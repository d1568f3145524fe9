"""What torch exports is held against torch: the right graph passes with its figures, a wrong one is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

torch = pytest.importorskip("torch", reason="torch is not installed; run make test-train, which installs it")
pytest.importorskip("onnxscript", reason="onnxscript is not installed; run make test-train, which installs it")

from model_packaging.export import export_network, parity_with_torch, torch_answers  # noqa: E402 - torch is there
from model_packaging.inference import answers_of  # noqa: E402
from serving.errors import PackagingError  # noqa: E402
from serving.spec.load import load_model  # noqa: E402
from serving.spec.model import ModelSpec  # noqa: E402
from serving.spec.tensors import DType, TensorSpec  # noqa: E402

pytestmark = pytest.mark.train


@pytest.fixture(name="spec")
def spec_fixture(root: Path) -> ModelSpec:
    """The ranker's promises (batches up to 512) on a network of three columns."""
    ranker = load_model(root, "recommendation_ranker")
    return replace(ranker, inputs=(TensorSpec(name="x", dtype=DType.FP32, shape=(3,), range=(-2.0, 2.0)),))


def network(*layers: Any) -> Any:
    torch.manual_seed(4)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), *layers, torch.nn.Linear(8, 2))


def exported(module: Any) -> onnx.ModelProto:
    return export_network(module, {"x": torch.zeros(2, 3)}, output_names=("y",))


def test_a_faithful_export_tells_its_largest_error_on_one_three_and_all_rows(spec: ModelSpec) -> None:
    module = network(torch.nn.Tanh())
    sample = {"x": np.array([[1.0, -2.0, 0.5]] * 7, dtype=np.float32)}
    parity = parity_with_torch(exported(module), torch_answers(module, output_names=("y",)), spec, samples=[sample])
    assert parity.batches == (1, 3, 512, 7)
    assert parity.rows == 523
    assert 0.0 <= parity.max_abs_error < 1e-5
    assert parity.toolchain["torch"] == torch.__version__


@pytest.mark.parametrize("rows", [1, 3, 32])
def test_the_exported_batch_is_free_and_answers_as_torch_does(rows: int) -> None:
    module = network(torch.nn.ReLU())
    x = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(answers_of(exported(module))({"x": x})["y"], expected, atol=1e-6)


def test_the_same_network_exports_the_same_bytes() -> None:
    first, second = (exported(network(torch.nn.ReLU())).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_a_network_in_training_mode_is_exported_as_it_serves(spec: ModelSpec) -> None:
    module = network(torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5)).train()
    parity = parity_with_torch(exported(module), torch_answers(module, output_names=("y",)), spec)
    assert parity.max_abs_error < 1e-5


class StubbornDropout(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Drops values in eval mode too, which is a well known slip."""

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.dropout(x, 0.5, training=True)


def test_a_network_that_drops_values_in_eval_mode_too_is_refused(spec: ModelSpec) -> None:
    stubborn = network(StubbornDropout())
    with pytest.raises(PackagingError, match="away from the trained network"):
        parity_with_torch(exported(stubborn), torch_answers(stubborn, output_names=("y",)), spec)


def test_an_export_with_a_transposed_weight_is_refused(spec: ModelSpec) -> None:
    module = torch.nn.Linear(3, 3, bias=False)
    model = exported(module)
    weight = next(tensor for tensor in model.graph.initializer if list(tensor.dims) == [3, 3])
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).T.copy(), weight.name))
    with pytest.raises(PackagingError, match="parity at 1 rows"):
        parity_with_torch(model, torch_answers(module, output_names=("y",)), spec)


def test_an_export_with_a_fixed_batch_is_refused(spec: ModelSpec) -> None:
    module = network(torch.nn.ReLU())
    model = exported(module)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    with pytest.raises(PackagingError, match="ONNX Runtime"):
        parity_with_torch(model, torch_answers(module, output_names=("y",)), spec)
