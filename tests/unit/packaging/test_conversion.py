"""Quantised and optimised versions: the frame stays, the bytes are the same anywhere, too much loss is refused."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from sklearn.metrics import roc_auc_score

from model_packaging import convert
from model_packaging.build import package
from model_packaging.inference import answers_of
from model_packaging.manifest_file import read_manifest
from model_packaging.quantise import optimise, to_fp16, to_int8_dynamic, to_int8_static, widened
from serving.errors import PackagingError
from serving.spec.model import ModelSpec, VersionSpec
from serving.spec.quantisation import QuantisationKind, QuantisationSpec
from serving.spec.tensors import DType, TensorSpec

WIDE = TensorSpec(name="x", dtype=DType.FP32, shape=(16,), range=(-3.0, 3.0))
RNG = np.random.default_rng(3)
CALIBRATION = RNG.uniform(-3, 3, (200, 16)).astype(np.float32)
MEASURED = RNG.uniform(-3, 3, (400, 16)).astype(np.float32)


def scorer() -> onnx.ModelProto:
    """Two layers and a sigmoid: x FLOAT (N, 16) → y FLOAT (N, 1), with a constant that folds."""
    rng = np.random.default_rng(5)
    tensors = {
        "w1": rng.normal(0, 0.5, (16, 24)),
        "b1": rng.normal(0, 0.1, (24,)),
        "w2": rng.normal(0, 0.5, (24, 1)),
        "half": np.full((1,), 0.5),
    }
    nodes = [
        helper.make_node("Add", ["half", "half"], ["one"]),
        helper.make_node("Mul", ["x", "one"], ["x1"]),
        helper.make_node("Gemm", ["x1", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["z"]),
        helper.make_node("Sigmoid", ["z"], ["y"]),
    ]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("x", 16), ("y", 1))
    ]
    stored = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in tensors.items()]
    graph = helper.make_graph(nodes, "scorer", infos[:1], infos[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10, producer_name="test")


CONVERSIONS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "optimised": optimise,
    "fp16": to_fp16,
    "int8-dynamic": to_int8_dynamic,
    "int8-static": lambda model: to_int8_static(model, {"x": CALIBRATION}),
}
KINDS: list[QuantisationKind] = ["fp16", "int8-dynamic", "int8-static"]


@pytest.fixture(scope="module", name="model")
def model_fixture() -> onnx.ModelProto:
    return scorer()


@pytest.mark.parametrize("kind", CONVERSIONS)
def test_a_converted_graph_keeps_inputs_outputs_opset_and_the_free_batch(model: onnx.ModelProto, kind: str) -> None:
    before = model.SerializeToString(deterministic=True)
    made = CONVERSIONS[kind](model)
    assert (list(made.graph.input), list(made.graph.output)) == (list(model.graph.input), list(model.graph.output))
    assert (list(made.opset_import), made.ir_version) == (list(model.opset_import), 10)
    ask = answers_of(made)
    for rows in (1, 3, 32):
        answer = ask({"x": MEASURED[:rows]})["y"]
        assert (answer.shape, answer.dtype) == ((rows, 1), np.float32)
    assert model.SerializeToString(deterministic=True) == before


def test_weights_are_of_the_type_that_was_asked(model: onnx.ModelProto) -> None:
    for kind, wanted in (("fp16", "FLOAT16"), ("int8-dynamic", "INT8"), ("int8-static", "INT8")):
        matrices = [tensor for tensor in CONVERSIONS[kind](model).graph.initializer if len(tensor.dims) == 2]
        assert {TensorProto.DataType.Name(tensor.data_type) for tensor in matrices} == {wanted}, kind


def test_optimising_folds_constants_and_changes_no_answer(model: onnx.ModelProto) -> None:
    made = optimise(model)
    assert "Add" not in {node.op_type for node in made.graph.node}
    assert {node.domain for node in made.graph.node} == {""}
    np.testing.assert_array_equal(answers_of(made)({"x": MEASURED})["y"], answers_of(model)({"x": MEASURED})["y"])


SCRIPT = """
import hashlib, sys
import numpy as np, onnx
from model_packaging.quantise import optimise, to_fp16, to_int8_dynamic, to_int8_static
model = onnx.load(sys.argv[1])
x = {"x": np.load(sys.argv[2], allow_pickle=False)}
made = (optimise(model), to_fp16(model), to_int8_dynamic(model), to_int8_static(model, x))
print(*(hashlib.sha256(each.SerializeToString(deterministic=True)).hexdigest() for each in made))
"""


def test_two_processes_with_other_hashes_and_cores_give_the_same_bytes(
    model: onnx.ModelProto, tmp_path: Path, root: Path
) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", CALIBRATION)
    digests = [hashlib.sha256(c(model).SerializeToString(deterministic=True)).hexdigest() for c in CONVERSIONS.values()]
    core = str(min(os.sched_getaffinity(0)))
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(root)}
    words = ["taskset", "-c", core, sys.executable, "-c", SCRIPT, str(tmp_path / "m.onnx"), str(tmp_path / "x.npy")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == digests


@given(st.floats(-1e6, 1e6, width=32), st.floats(-1e6, 1e6, width=32))
def test_a_widened_range_holds_the_range_nearly_and_stays_when_widened_again(first: float, second: float) -> None:
    low, high = sorted((first, second))
    wide = widened(low, high)
    assert wide[0] <= low <= high <= wide[1]
    assert high >= 0 or wide[1] <= 0
    assert abs(wide[0] - low) <= abs(low) / 128
    assert abs(wide[1] - high) <= abs(high) / 128
    assert widened(*wide) == wide


@given(st.floats(1e-3, 1e3), st.floats(-1e-6, 1e-6))
def test_the_last_digits_of_a_sum_seldom_change_a_range_and_never_by_more_than_a_step(
    value: float, noise: float
) -> None:
    one, other = widened(0.0, value)[1], widened(0.0, value * (1 + noise))[1]
    assert abs(one - other) <= value / 64


def quantised_spec(spec: ModelSpec, folder: Path, **changes: Any) -> ModelSpec:
    """The toy with the scorer's weights, quantised, and its sets written; `changes` of the quantisation."""
    scores = answers_of(scorer())({"x": MEASURED})["y"].ravel()
    noisy = scores + np.random.default_rng(11).normal(0, scores.std(), len(scores))
    target = (noisy > np.median(noisy)).astype(np.uint8)
    (folder / "weights/1.0.0.onnx").write_bytes(scorer().SerializeToString(deterministic=True))
    np.savez_compressed(folder / "calibration.npz", x=CALIBRATION)
    np.savez_compressed(folder / "evaluation.npz", x=MEASURED, target=target)
    asked = QuantisationSpec(
        **{
            "kind": "int8-static",
            "calibration": "calibration.npz",
            "evaluation": "evaluation.npz",
            "metric": "auc",
            "max_loss": 0.05,
            **changes,
        }
    )
    trained = VersionSpec(weights="weights/1.0.0.onnx", quantisation=asked)
    return replace(spec, inputs=(WIDE,), versions={"1.0.0": trained})


def run(spec: ModelSpec, folder: Path) -> tuple[Path, Any]:
    trained = spec.versions["1.0.0"]
    out = folder / "out"
    out.mkdir(exist_ok=True)
    return convert.converted(spec, trained, weights=folder / trained.weights, model_dir=folder, scratch=out)


@pytest.mark.parametrize("kind", KINDS)
def test_the_record_tells_the_metric_before_and_after_as_scikit_learn_does(
    spec: ModelSpec, model_dir: Path, kind: QuantisationKind
) -> None:
    calibration = "calibration.npz" if kind == "int8-static" else ""
    asked = quantised_spec(spec, model_dir, kind=kind, calibration=calibration)
    path, conversion = run(asked, model_dir)
    target = np.load(model_dir / "evaluation.npz", allow_pickle=False)["target"]
    for weights, told in (
        (model_dir / "weights/1.0.0.onnx", conversion.quantisation.before),
        (path, conversion.quantisation.after),
    ):
        # in batches of the spec's size: a dynamic scale is that of the batch
        scores = answers_of(weights, batch_rows=8)({"x": MEASURED})["y"].ravel()
        assert told == pytest.approx(roc_auc_score(target, scores), abs=1e-6)
    assert conversion.source_sha256 == hashlib.sha256((model_dir / "weights/1.0.0.onnx").read_bytes()).hexdigest()
    assert bool(conversion.quantisation.calibration_sha256) == (kind == "int8-static")


def test_more_loss_than_the_spec_allows_is_refused_with_both_figures(
    spec: ModelSpec, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = quantised_spec(spec, model_dir, kind="fp16", calibration="")
    assert run(asked, model_dir)[1].quantisation.kind == "fp16"

    def spoiled(model: onnx.ModelProto) -> onnx.ModelProto:
        made = to_fp16(model)
        weight = next(tensor for tensor in made.graph.initializer if tensor.name == "w2")
        weight.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weight), "w2"))
        return made

    monkeypatch.setattr(convert, "_WITHOUT_DATA", {"fp16": spoiled})
    with pytest.raises(PackagingError, match=r"got auc 0\.\d+ after fp16 and 0\.\d+ before; allowed a loss of 0\.05"):
        run(asked, model_dir)


def test_calibration_that_shows_another_world_costs_more_than_is_allowed(spec: ModelSpec, model_dir: Path) -> None:
    asked = quantised_spec(spec, model_dir, max_loss=0.01)
    np.savez_compressed(model_dir / "calibration.npz", x=CALIBRATION * np.float32(1e-4))
    with pytest.raises(PackagingError, match=r"allowed a loss of 0\.01"):
        run(asked, model_dir)


def test_a_metric_that_is_no_number_is_refused(spec: ModelSpec, model_dir: Path) -> None:
    asked = quantised_spec(spec, model_dir)
    np.savez_compressed(model_dir / "evaluation.npz", x=MEASURED, target=np.ones(len(MEASURED), np.uint8))
    with pytest.raises(PackagingError, match="got auc nan"):
        run(asked, model_dir)


def test_a_metric_of_classes_is_none_of_a_score(spec: ModelSpec, model_dir: Path) -> None:
    asked = quantised_spec(spec, model_dir, metric="accuracy")
    with pytest.raises(PackagingError, match="got accuracy of output 'y' with 1 columns; allowed 2 or more"):
        run(asked, model_dir)


def test_a_graph_that_answers_otherwise_when_optimised_is_refused(
    spec: ModelSpec, model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = quantised_spec(spec, model_dir)
    asked = replace(asked, versions={"1.0.0": VersionSpec(weights="weights/1.0.0.onnx", optimise=True)})
    path, conversion = run(asked, model_dir)
    assert (conversion.optimised, conversion.quantisation) == (True, None)
    assert path.read_bytes() != (model_dir / "weights/1.0.0.onnx").read_bytes()

    def wrong(model: onnx.ModelProto) -> onnx.ModelProto:
        made = optimise(model)
        next(node for node in made.graph.node if node.op_type == "Relu").op_type = "Neg"
        return made

    monkeypatch.setattr(convert, "optimise", wrong)
    with pytest.raises(PackagingError, match="parity at 1 rows"):
        run(asked, model_dir)


def test_a_graph_that_onnx_runtime_cannot_load_is_one_line_when_it_is_optimised(
    spec: ModelSpec, model_dir: Path, make_network: Callable[..., onnx.ModelProto]
) -> None:
    broken = make_network()
    broken.graph.node[0].op_type = "NoSuchOperator"
    (model_dir / "weights" / "1.0.0.onnx").write_bytes(broken.SerializeToString())
    asked = replace(spec, versions={"1.0.0": VersionSpec(weights="weights/1.0.0.onnx", optimise=True)})
    with pytest.raises(PackagingError, match="optimise: got an error of ONNX Runtime") as caught:
        package(asked, "1.0.0", model_dir=model_dir, out_dir=model_dir, image="x")
    assert "\n" not in str(caught.value)


def test_weights_that_nobody_asked_to_change_are_packaged_as_they_are(spec: ModelSpec, model_dir: Path) -> None:
    weights = model_dir / "weights/1.0.0.onnx"
    found = convert.converted(
        spec, spec.versions["1.0.0"], weights=weights, model_dir=model_dir, scratch=model_dir / "none"
    )
    assert found == (weights, None)


def test_bytes_that_are_no_graph_are_refused_before_they_are_converted(spec: ModelSpec, model_dir: Path) -> None:
    asked = quantised_spec(spec, model_dir)
    (model_dir / "weights/1.0.0.onnx").write_bytes(b"no graph")
    with pytest.raises(PackagingError, match="no ONNX model"):
        run(asked, model_dir)


def test_the_archive_holds_the_converted_graph_and_its_manifest_the_record(
    spec: ModelSpec, model_dir: Path, tmp_path: Path
) -> None:
    asked = quantised_spec(spec, model_dir)
    values = ", ".join(["0.5"] * 16)
    request = f'{{"inputs": [{{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [{values}]}}]}}'
    (model_dir / "samples/request.json").write_text(request)
    manifest = package(asked, "1.0.0", model_dir=model_dir, out_dir=tmp_path, image="triton:1.2")
    packed = {entry.path: entry.sha256 for entry in manifest.files}["toy/1/model.onnx"]
    path, conversion = run(asked, model_dir)
    assert packed == hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest.conversion == conversion
    assert read_manifest(tmp_path / "toy-1.0.0.manifest.json") == manifest
