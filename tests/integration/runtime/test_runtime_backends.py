"""Ensembles, Python models and models without batches: archives of the packager, asked for by tritonclient."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http

from model_packaging.build import package, package_path
from tests.integration.runtime.conftest import Server, serving
from tests.unit.packaging.zoo import MIXED, ONNX, PYTHON, Model

NO_BATCH = next(model for model in ONNX if model.name == "no_batch")
Packaged = Callable[[Model], Path]


@pytest.fixture(name="packaged")
def packaged_fixture(tmp_path: Path) -> Packaged:
    def make(model: Model) -> Path:
        folder = tmp_path / model.name
        (folder / "samples").mkdir(parents=True)
        (folder / "samples/request.json").write_bytes(model.sample)
        package(model.spec, "1.0.0", model_dir=folder, out_dir=tmp_path, image="image:1", weights=model.write(folder))
        return package_path(tmp_path, model.spec, "1.0.0")

    return make


def infer(server: Server, model: Model, arrays: dict[str, Any]) -> dict[str, Any]:
    client = triton_http.InferenceServerClient(f"127.0.0.1:{server.port}")
    try:
        inputs = []
        for spec in model.inputs:
            given = triton_http.InferInput(spec.name, list(arrays[spec.name].shape), spec.dtype.value)
            given.set_data_from_numpy(arrays[spec.name])
            inputs.append(given)
        answer = client.infer(model.name, inputs)
        return {spec.name: answer.as_numpy(spec.name) for spec in model.outputs}
    finally:
        client.close()


def test_an_ensemble_of_graphs_and_python_answers_as_its_steps_say(packaged: Packaged) -> None:
    (mixed,) = MIXED
    with serving(packaged(mixed)) as server:
        text = np.array([["hello"], ["hello world"], ["grüße"]], dtype=np.object_)
        # twice the bytes of UTF-8 is above 9 where there are five bytes or more
        assert infer(server, mixed, {"text": text})["label"].tolist() == [[b"long"], [b"long"], [b"long"]]
        short = np.array([["abcd"]], dtype=np.object_)
        assert infer(server, mixed, {"text": short})["label"].tolist() == [[b"short"]]


def test_a_python_model_answers_its_rows(packaged: Packaged) -> None:
    (double, _) = PYTHON
    with serving(packaged(double)) as server:
        for rows in (1, 4):
            x = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
            np.testing.assert_array_equal(infer(server, double, {"x": x})["y"], x * 2)


def test_a_model_without_batches_takes_whole_tensors(packaged: Packaged) -> None:
    model = NO_BATCH
    with serving(packaged(model)) as server:
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(infer(server, model, {"x": x})["y"], x.sum(axis=1))
        with server.client() as client:
            assert client.get("/v2/models/no_batch").json()["inputs"][0]["shape"] == [2, 3]
            body = {"inputs": [{"name": "x", "shape": [1, 2, 3], "datatype": "FP32", "data": x.ravel().tolist()}]}
            answer = client.post("/invocations", json=body)
            assert answer.status_code == 400
            assert "allowed [2, 3], since the model takes no batches" in answer.json()["error"]
