"""Which captured tensor is which watched feature."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from lambdas.drift.columns import Columns
from serving.errors import TelemetryError
from serving.protocol.tensors import Array, InferRequest, InferResponse, Tensor
from serving.spec import ModelSpec
from serving.spec.codec import converter


def spec(root: Path, name: str) -> ModelSpec:
    toml = tomllib.loads((root / "models" / name / "model.toml").read_text())
    found: ModelSpec = converter().structure(toml, ModelSpec)
    return found


def request(**tensors: Array) -> InferRequest:
    return InferRequest(inputs=tuple(Tensor(name, array) for name, array in tensors.items()))


def answer(**tensors: Array) -> InferResponse:
    outputs = tuple(Tensor(name, array) for name, array in tensors.items())
    return InferResponse(model_name="m", model_version="1", outputs=outputs)


def test_a_matrix_has_the_fields_of_the_views_in_order_and_then_the_context(root: Path) -> None:
    matrix = np.arange(72, dtype=np.float32).reshape(2, 36)
    columns = Columns(spec(root, "recommendation_ranker"), ["taste_0", "quality", "hour_sin", "is_weekend", "score"])
    found = columns.rows(request(features=matrix), answer(score=np.array([[0.25], [0.5]], dtype=np.float32)))
    expected = {
        "taste_0": [0, 36],
        "quality": [31, 67],
        "hour_sin": [32, 68],
        "is_weekend": [35, 71],
        "score": [0.25, 0.5],
    }
    assert {name: column.tolist() for name, column in found.items()} == expected


def test_an_image_has_mean_and_deviation_a_title_its_bytes_and_scores_their_labels(root: Path) -> None:
    image = np.zeros((1, 64, 64, 3), dtype=np.uint8)
    image[:, :32] = 200
    title = np.array([["é!".encode()]], dtype=np.object_)
    model = spec(root, "content_moderator")
    found = Columns(model, model.drift.features).rows(
        request(image=image, title=title), answer(scores=np.array([[0.5, 0.25, 0.125]], dtype=np.float32))
    )
    assert {name: column.tolist() for name, column in found.items()} == {
        "image.brightness": [100.0],
        "image.contrast": [100.0],
        "title.length": [3.0],
        "scores.nsfw": [0.25],
        "scores.violence": [0.125],
    }


@pytest.mark.parametrize("model", ["recommendation_ranker", "content_moderator", "thumbnail_scorer"])
def test_every_feature_that_a_spec_watches_has_a_column(root: Path, model: str) -> None:
    found = spec(root, model)
    assert found.drift.features, "a spec that watches nothing proves nothing"
    Columns(found, found.drift.features)


def test_an_unknown_feature_is_refused_with_those_there_are(root: Path) -> None:
    with pytest.raises(TelemetryError, match=r"got image\.warmth; allowed image\.brightness, image\.contrast, score"):
        Columns(spec(root, "thumbnail_scorer"), ["image.warmth"])


@pytest.mark.parametrize("shape", [(2, 35), (36,), (1, 36)])
def test_tensors_of_another_shape_are_refused(root: Path, shape: tuple[int, ...]) -> None:
    columns = Columns(spec(root, "recommendation_ranker"), ["quality", "score"])
    with pytest.raises(TelemetryError):
        columns.rows(request(features=np.zeros(shape, dtype=np.float32)), answer(score=np.zeros((2, 1), np.float32)))
