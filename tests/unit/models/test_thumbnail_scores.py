"""The thumbnail scorer prefers the unspoiled picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from PIL import Image, ImageFilter

Opener = Callable[[str, str], ort.InferenceSession]


def blurred(image: Image.Image, strength: float) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(4.0 * strength))


def noisy(image: Image.Image, strength: float) -> Image.Image:
    noise = np.random.default_rng(5).normal(0.0, 50.0 * strength, (96, 96, 3))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def compressed(image: Image.Image, strength: float) -> Image.Image:
    data = BytesIO()
    image.save(data, "JPEG", quality=round(95 - 91 * strength))
    return Image.open(data)


def dark(image: Image.Image, strength: float) -> Image.Image:
    return image.point(lambda value: int(value * 2.0 ** (-4.0 * strength)))


@pytest.mark.parametrize("spoil", [blurred, noisy, compressed, dark])
def test_the_spoiled_sample_scores_lower(
    root: Path, opened: Opener, spoil: Callable[[Image.Image, float], Image.Image]
) -> None:
    image = Image.open(root / "models/thumbnail_scorer/samples/thumbnail.jpg").convert("RGB")
    ladder = np.stack([np.asarray(image), np.asarray(spoil(image, 1.0))])
    pristine, worst = opened("thumbnail_scorer", "1.0.0").run(None, {"image": ladder})[0].ravel()
    assert worst < pristine - 0.2


def test_the_committed_rank_correlation_is_useful_and_stated(root: Path) -> None:
    record = json.loads((root / "models/thumbnail_scorer/weights/1.0.0.metrics.json").read_text())
    metrics = record["metrics"]
    assert metrics["spearman"] > 0.7
    assert metrics["mean_absolute_error"] < metrics["quality_deviation"]
    assert f"{metrics['spearman']:.2f}" in (root / "models/thumbnail_scorer/README.md").read_text()
