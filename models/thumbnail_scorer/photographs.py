"""Crops of free photographs, degraded in known ways: what the scorer learns from.

scikit-image and scikit-learn ship the photographs; nothing is downloaded. A crop's quality is known because the
script spoils it: each of six degradations has a severity 0..1, and the quality is the product of what each leaves.
Photographs of the test are never in training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import numpy.typing as npt
import skimage.data
import sklearn.datasets
from PIL import Image, ImageFilter

SIDE = 96
TRAINING = (
    "astronaut",
    "coffee",
    "chelsea",
    "retina",
    "moon",
    "immunohistochemistry",
    "hubble_deep_field",
    "brick",
    "grass",
    "gravel",
    "coins",
    "flower",
)
HELD_OUT = ("rocket", "camera", "china")
LOSS_AT_WORST = 0.9

ImageArray = npt.NDArray[np.uint8]
Pixels = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crops:
    """Images (rows, 96, 96, 3) RGB and the quality 0..1 of each (rows, 1)."""

    images: ImageArray
    quality: npt.NDArray[np.float32]


def photograph(name: str) -> Image.Image:
    """Load one photograph as RGB."""
    if name in {"china", "flower"}:
        pixels = sklearn.datasets.load_sample_image(f"{name}.jpg")
    else:
        pixels = getattr(skimage.data, name)()
    return Image.fromarray(pixels).convert("RGB")


def draw_crops(seed: int, count: int, names: tuple[str, ...], *, varied: bool = False) -> Crops:
    """Draw crops of the photographs in turn; a fifth stays pristine, the others lose by one to three degradations.

    `varied` turns crops and swaps their colours at random: few photographs, more to learn from.
    """
    rng = np.random.default_rng(seed)
    photographs = [photograph(name) for name in names]
    images, quality = np.empty((count, SIDE, SIDE, 3), dtype=np.uint8), np.empty((count, 1), dtype=np.float32)
    for row in range(count):
        severities = draw_severities(rng)
        cut = crop(rng, photographs[row % len(photographs)])
        images[row] = degrade(rng, vary(rng, cut) if varied else cut, severities)
        quality[row] = quality_of(severities)
    return Crops(images=images, quality=quality)


def draw_severities(rng: np.random.Generator) -> dict[str, float]:
    """Choose none to three degradations and how severe each is, 0..1."""
    how_many = int(rng.choice(4, p=(0.2, 0.45, 0.25, 0.1)))
    return {str(name): float(rng.random()) for name in rng.choice(list(DEGRADATIONS), how_many, replace=False)}


def quality_of(severities: dict[str, float]) -> float:
    """Give the product of what each degradation leaves: 1 pristine, 0.1 for one at its worst."""
    return float(np.prod([1.0 - LOSS_AT_WORST * severity for severity in severities.values()]))


def crop(rng: np.random.Generator, image: Image.Image) -> Image.Image:
    """Cut a square at least 1.4 times as large as the result, so that its own softness and noise vanish."""
    side = int(rng.integers(int(1.4 * SIDE), min(image.size) + 1))
    left, top = (int(rng.integers(0, length - side + 1)) for length in image.size)
    cut = image.resize((SIDE, SIDE), Image.Resampling.LANCZOS, box=(left, top, left + side, top + side))
    return cut.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.integers(2) else cut


def vary(rng: np.random.Generator, image: Image.Image) -> Image.Image:
    """Turn by quarters and permute the colour channels: neither changes the quality."""
    pixels = np.rot90(np.asarray(image), int(rng.integers(4)))
    return Image.fromarray(np.ascontiguousarray(pixels[:, :, rng.permutation(3)]))


def degrade(rng: np.random.Generator, image: Image.Image, severities: dict[str, float]) -> ImageArray:
    """Spoil in the order in which light meets lens, sensor and encoder; severity 0 changes nothing visible."""
    pixels = np.asarray(image, dtype=np.float64)
    for name, spoil in DEGRADATIONS.items():
        if name in severities:
            pixels = np.clip(spoil(rng, pixels, severities[name]), 0.0, 255.0)
    return np.rint(pixels).astype(np.uint8)


def _contrast(rng: np.random.Generator, pixels: Pixels, severity: float) -> Pixels:
    haze = rng.uniform(90.0, 170.0)
    return haze + (pixels - haze) * (1.0 - 0.85 * severity)


def _underexposed(_rng: np.random.Generator, pixels: Pixels, severity: float) -> Pixels:
    return pixels * 2.0 ** (-3.5 * severity)


def _overexposed(_rng: np.random.Generator, pixels: Pixels, severity: float) -> Pixels:
    return pixels * 2.0 ** (2.5 * severity)


def _blur(_rng: np.random.Generator, pixels: Pixels, severity: float) -> Pixels:
    blurred = _image(pixels).filter(ImageFilter.GaussianBlur(3.5 * severity))
    return np.asarray(blurred, dtype=np.float64)


def _noise(rng: np.random.Generator, pixels: Pixels, severity: float) -> Pixels:
    return pixels + rng.normal(0.0, 45.0 * severity, pixels.shape)


def _compression(_rng: np.random.Generator, pixels: Pixels, severity: float) -> Pixels:
    data = BytesIO()
    _image(pixels).save(data, "JPEG", quality=round(95.0 * (4.0 / 95.0) ** severity))
    return np.asarray(Image.open(data), dtype=np.float64)


def _image(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


DEGRADATIONS: dict[str, Callable[[np.random.Generator, Pixels, float], Pixels]] = {
    "contrast": _contrast,
    "underexposed": _underexposed,
    "overexposed": _overexposed,
    "blur": _blur,
    "noise": _noise,
    "compression": _compression,
}
