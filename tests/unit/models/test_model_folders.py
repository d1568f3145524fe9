"""What every committed model folder keeps: small weights, the signature of its spec, baselines, samples."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest

from serving.prediction.images import to_tensor
from serving.protocol.codec import JSON_TYPE, decode_request
from serving.spec import ModelSpec
from serving.spec.load import load_model
from serving.telemetry.baseline import baseline_from_dict

Opener = Callable[[str, str], ort.InferenceSession]

VERSIONS = [
    ("recommendation_ranker", "2.0.0"),
    ("recommendation_ranker", "3.0.0"),
    ("content_moderator", "1.0.0"),
    ("thumbnail_scorer", "1.0.0"),
]
MODELS = sorted({model for model, _ in VERSIONS})
ORT_TYPES = {"FP32": "tensor(float)", "UINT8": "tensor(uint8)", "BYTES": "tensor(string)"}
TITLES = ("", " ", "brutal FIGHT!", "日本語 🎉 été", "my day", "word " * 300, "clay", "\t\n")


def random_inputs(spec: ModelSpec, rows: int) -> dict[str, npt.NDArray[np.generic]]:
    rng = np.random.default_rng(rows)
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for tensor in spec.inputs:
        shape = (rows, *tensor.shape)
        if tensor.dtype == "BYTES":
            arrays[tensor.name] = np.array([TITLES[row % len(TITLES)] for row in range(rows)], dtype=object)[:, None]
        elif tensor.dtype == "UINT8":
            arrays[tensor.name] = rng.integers(0, 256, shape, dtype=np.uint8)
        else:
            arrays[tensor.name] = rng.normal(0.0, 3.0, shape).astype(np.float32)
    return arrays


@pytest.mark.parametrize(("model", "version"), VERSIONS)
def test_weights_take_less_than_two_megabytes(root: Path, model: str, version: str) -> None:
    assert (root / f"models/{model}/weights/{version}.onnx").stat().st_size < 2_000_000


@pytest.mark.parametrize(("model", "version"), VERSIONS)
def test_the_signature_is_that_of_the_spec_with_a_free_batch(
    root: Path, opened: Opener, model: str, version: str
) -> None:
    spec, session = load_model(root, model), opened(model, version)
    for declared, found in ((spec.inputs, session.get_inputs()), (spec.outputs, session.get_outputs())):
        assert [(t.name, ORT_TYPES[t.dtype], list(t.shape)) for t in declared] == [
            (value.name, value.type, value.shape[1:]) for value in found
        ]
        assert all(isinstance(value.shape[0], str) for value in found)


@pytest.mark.parametrize(("model", "version"), VERSIONS)
def test_a_batch_answers_as_its_rows_alone(root: Path, opened: Opener, model: str, version: str) -> None:
    session = opened(model, version)
    inputs = random_inputs(load_model(root, model), 9)
    together = session.run(None, inputs)[0]
    alone = [session.run(None, {name: array[row : row + 1] for name, array in inputs.items()})[0] for row in range(9)]
    # ONNX Runtime sums in another order for another batch: noise as a picture carries that to the fifth place
    np.testing.assert_allclose(together, np.concatenate(alone), atol=5e-5)


@pytest.mark.parametrize(("model", "version"), VERSIONS)
@pytest.mark.parametrize("rows", [1, 2, 32, 65])
def test_answers_of_any_batch_are_finite_and_in_range(
    root: Path, opened: Opener, model: str, version: str, rows: int
) -> None:
    spec = load_model(root, model)
    answer = opened(model, version).run(None, random_inputs(spec, rows))[0]
    assert answer.shape == (rows, *spec.outputs[0].shape)
    assert np.isfinite(answer).all()
    assert answer.min() >= 0.0
    assert answer.max() <= 1.0


@pytest.mark.parametrize(("model", "version"), VERSIONS)
def test_the_graph_names_its_opset_and_nothing_of_the_machine_that_made_it(
    root: Path, model: str, version: str
) -> None:
    graph = onnx.load(str(root / f"models/{model}/weights/{version}.onnx"))
    assert {opset.domain: opset.version for opset in graph.opset_import}[""] in {18, 20}
    assert graph.ir_version == 10
    assert not [node.name for node in graph.graph.node if node.doc_string or node.metadata_props]
    assert b"/home/" not in graph.SerializeToString()
    assert b"site-packages" not in graph.SerializeToString()


@pytest.mark.parametrize(("model", "version"), VERSIONS)
def test_the_baseline_holds_what_the_spec_watches(root: Path, model: str, version: str) -> None:
    spec = load_model(root, model)
    document = json.loads((root / "models" / model / spec.versions[version].baseline).read_text())
    baseline = baseline_from_dict(document)
    assert {feature.name for feature in baseline.features} == set(spec.drift.features)
    assert baseline.rows >= 500
    assert all(feature.missing == 0 for feature in baseline.features)


@pytest.mark.parametrize(("model", "version"), VERSIONS)
def test_metrics_name_code_data_and_seed(root: Path, model: str, version: str) -> None:
    record = json.loads((root / f"models/{model}/weights/{version}.metrics.json").read_text())
    assert set(record) == {"metrics", "training_commit", "data_sha256", "seed", "parity"}
    assert len(record["training_commit"]) == 40
    assert len(record["data_sha256"]) == 64


@pytest.mark.parametrize("model", MODELS)
def test_the_sample_request_is_one_of_the_spec(root: Path, opened: Opener, model: str) -> None:
    spec = load_model(root, model)
    request = decode_request((root / f"models/{model}/samples/request.json").read_bytes(), content_type=JSON_TYPE)
    assert [(t.name, t.datatype, t.array.shape[1:]) for t in request.inputs] == [
        (tensor.name, tensor.dtype, tensor.shape) for tensor in spec.inputs
    ]
    version = max(version for name, version in VERSIONS if name == model)
    arrays = {tensor.name: tensor.array for tensor in request.inputs}
    if "title" in arrays:
        arrays["title"] = np.array([[arrays["title"][0, 0].decode()]], dtype=object)
    assert np.isfinite(opened(model, version).run(None, arrays)[0]).all()


@pytest.mark.parametrize("model", ["content_moderator", "thumbnail_scorer"])
def test_the_api_sample_holds_the_picture_of_the_request_sample(root: Path, model: str) -> None:
    folder = root / f"models/{model}/samples"
    picture = base64.b64decode(json.loads((folder / "api.json").read_text())["image_base64"])
    assert picture == (folder / "thumbnail.jpg").read_bytes()
    request = decode_request((folder / "request.json").read_bytes(), content_type=JSON_TYPE)
    image = next(tensor.array for tensor in request.inputs if tensor.name == "image")
    np.testing.assert_array_equal(to_tensor(picture, height=image.shape[1], width=image.shape[2]), image)


def test_the_ranker_sample_names_as_many_candidates_as_rows(root: Path) -> None:
    folder = root / "models/recommendation_ranker/samples"
    body = json.loads((folder / "api.json").read_text())
    request = decode_request((folder / "request.json").read_bytes(), content_type=JSON_TYPE)
    assert len(body["candidates"]) == len(request.inputs[0].array)
    assert set(body) == {"user_id", "candidates", "context"}
