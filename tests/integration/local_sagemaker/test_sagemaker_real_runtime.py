"""The real model server behind the real service: the answers are ONNX Runtime's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from model_packaging.build import archive_path, package
from serving.spec.images import pinned_image
from serving.spec.load import load_model

NAME = "recommendation_ranker"
VERSIONS = {"a": "2.0.0", "b": "3.0.0"}


@pytest.fixture(scope="module", name="archives")
def archives_fixture(tmp_path_factory: pytest.TempPathFactory, root: Path) -> dict[str, Path]:
    """Give the ranker's archives by slot."""
    spec, out = load_model(root, NAME), tmp_path_factory.mktemp("dist")
    for version in VERSIONS.values():
        package(spec, version, model_dir=root / "models" / NAME, out_dir=out, image=pinned_image(spec))
    return {slot: archive_path(out, NAME, version) for slot, version in VERSIONS.items()}


def test_each_slot_answers_what_its_version_computes(start: Any, root: Path, archives: dict[str, Path]) -> None:
    body = json.loads((root / "models" / NAME / "samples" / "request.json").read_text())
    (features,) = body["inputs"]
    rows = np.array(features["data"], dtype=np.float32).reshape(features["shape"])
    with start(server_command=(sys.executable, "-m", "serving.runtime")) as aws:
        models = {}
        for slot, path in archives.items():
            key = f"real-{slot}.model.tar.gz"
            aws.s3.upload_file(str(path), "models", key)
            models[slot] = aws.model(f"s3://models/{key}")
        endpoint = aws.endpoint(aws.config(models, {"a": 1, "b": 0}))
        answers = {slot: aws.invoke(endpoint, body, TargetVariant=slot)[1] for slot in models}
        untargeted = aws.invoke(endpoint, body)
    assert untargeted == ("a", answers["a"])
    for slot, version in VERSIONS.items():
        session = onnxruntime.InferenceSession(root / "models" / NAME / "weights" / f"{version}.onnx")
        (expected,) = session.run(["score"], {"features": rows})
        assert answers[slot]["model_version"] == version
        np.testing.assert_allclose(answers[slot]["outputs"][0]["data"], expected.ravel(), rtol=1e-5)
