"""Drawn thumbnails and written titles whose class is known: what the moderator's stand-in learns from.

No real picture is involved. Three kinds of scene stand for three kinds of thumbnail: `plain` (landscapes, rooms,
portraits), `bodies` (large overlapping ellipses in skin tones) and `splatter` (a dark ground with jagged red). Titles
stand for tones: `neutral`, `adult`, `violent`, and `craft` (clay, paint, sauce: a harmless reason for such a picture).
The class follows from both (`label_of`), so neither the picture nor the title is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

SIDE = 64
DRAWN = 128
LABELS = ("safe", "nsfw", "violence")
KINDS = ("plain", "bodies", "splatter")
TONES = ("neutral", "adult", "violent", "craft")

_WORDS = {
    "neutral": """my day morning travel vlog city music live review game new best first how to the a in with for and our
        ten tips dog cat garden school home tour train bike mountain sea weekend story guide learn math science news
        talk episode part one two three final season friends family summer winter lake forest market street""",
    "adult": "explicit uncensored adults nude naked lewd erotic strip bare nsfw sensual topless",
    "violent": "fight brutal blood attack shooting murder war stabbing beating gore riot kill assault weapon",
    "craft": "clay sculpture dough paint ketchup sauce tomato makeup prop pottery baking beetroot",
}
WORDS = {tone: tuple(words.split()) for tone, words in _WORDS.items()}
SUFFIXES = ("", ".", ",", "!", "?", ":")
SKIN = ((255, 219, 172), (241, 194, 125), (224, 172, 105), (198, 134, 66), (141, 85, 36), (92, 58, 33))

Colour = tuple[int, int, int]
Point = tuple[float, float]
ImageArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Images (rows, 64, 64, 3) RGB, one title a row, and the class of each row as an index into `LABELS`."""

    images: ImageArray
    titles: tuple[str, ...]
    labels: npt.NDArray[np.int64]


def label_of(kind: str, tone: str) -> str:
    """Give the class: a title that says it decides; a harmless title excuses the picture; else the picture decides."""
    if tone in {"adult", "violent"}:
        return "nsfw" if tone == "adult" else "violence"
    if tone == "craft" or kind == "plain":
        return "safe"
    return "nsfw" if kind == "bodies" else "violence"


def draw_examples(seed: int, count: int) -> Examples:
    """Draw examples: half the pictures are plain, half the titles neutral."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(KINDS, count, p=(0.5, 0.25, 0.25))
    tones = rng.choice(TONES, count, p=(0.5, 0.15, 0.15, 0.2))
    return Examples(
        images=np.stack([draw(rng, kind) for kind in kinds]),
        titles=tuple(write_title(rng, tone) for tone in tones),
        labels=np.array([LABELS.index(label_of(*pair)) for pair in zip(kinds, tones, strict=True)], dtype=np.int64),
    )


def write_title(rng: np.random.Generator, tone: str) -> str:
    """Write 2 to 9 words; one or two carry the tone; a title may be empty when it says nothing."""
    if tone == "neutral" and _chance(rng, 0.08):
        return ""
    words = list(rng.choice(WORDS["neutral"], rng.integers(2, 8)))
    signals = () if tone == "neutral" else rng.choice(WORDS[tone], rng.integers(1, 3), replace=False)
    for word in (*signals, *_unknown_words(rng)):
        words.insert(int(rng.integers(0, len(words) + 1)), word)
    cased = [_cased(rng, word) + (str(rng.choice(SUFFIXES[1:])) if _chance(rng, 0.08) else "") for word in words]
    return " ".join(cased)


def _unknown_words(rng: np.random.Generator) -> list[str]:
    letters = list("abcdefghijklmnopqrstuvwxyzéüñ日本語")
    return ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(int(_chance(rng, 0.3)))]


def _cased(rng: np.random.Generator, word: str) -> str:
    form = rng.choice(("as it is", "upper", "capital"), p=(0.6, 0.15, 0.25))
    if form == "upper":
        return word.upper()
    return word.capitalize() if form == "capital" else word


def _chance(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def draw(rng: np.random.Generator, kind: str) -> ImageArray:
    """Draw one scene, then blur, relight and compress it as a camera and an upload would."""
    image = Image.new("RGB", (DRAWN, DRAWN))
    canvas = ImageDraw.Draw(image)
    {"plain": _plain, "bodies": _bodies, "splatter": _splatter}[kind](rng, canvas)
    image = image.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.0, 1.8)))).resize((SIDE, SIDE))
    pixels = np.asarray(image, dtype=np.float64) * rng.uniform(0.7, 1.2) + rng.uniform(-15, 15)
    pixels += rng.normal(0.0, rng.uniform(0.0, 9.0), pixels.shape)
    return _compressed(np.clip(pixels, 0, 255).astype(np.uint8), int(rng.integers(55, 95)))


def _compressed(pixels: ImageArray, quality: int) -> ImageArray:
    data = BytesIO()
    Image.fromarray(pixels).save(data, "JPEG", quality=quality)
    return np.asarray(Image.open(data), dtype=np.uint8)


def _colour(rng: np.random.Generator, low: Sequence[int], high: Sequence[int]) -> Colour:
    red, green, blue = (int(rng.integers(lo, hi + 1)) for lo, hi in zip(low, high, strict=True))
    return red, green, blue


def _skin(rng: np.random.Generator) -> Colour:
    base = np.array(SKIN[int(rng.integers(len(SKIN)))]) + rng.integers(-12, 13, 3)
    red, green, blue = (int(value) for value in np.clip(base, 0, 255))
    return red, green, blue


def _ellipse(canvas: ImageDraw.ImageDraw, centre: Point, radii: Point, fill: Colour) -> None:
    (x, y), (width, height) = centre, radii
    canvas.ellipse((x - width, y - height, x + width, y + height), fill=fill)


def _plain(rng: np.random.Generator, canvas: ImageDraw.ImageDraw) -> None:
    (_landscape, _portrait, _room)[int(rng.integers(3))](rng, canvas)


def _landscape(rng: np.random.Generator, canvas: ImageDraw.ImageDraw) -> None:
    sunset = _chance(rng, 0.3)
    sky = _colour(rng, (200, 70, 40), (250, 140, 90)) if sunset else _colour(rng, (90, 140, 190), (190, 220, 255))
    canvas.rectangle((0, 0, DRAWN, DRAWN), fill=sky)
    sun = (rng.uniform(20, 110), rng.uniform(10, 45))
    _ellipse(canvas, sun, (9, 9), _colour(rng, (240, 200, 80), (255, 240, 170)))
    for ground in np.sort(rng.uniform(55, 110, int(rng.integers(2, 4)))):
        ridge = [(x, ground + 14 * np.sin(x / rng.uniform(9, 25) + rng.uniform(0, 6))) for x in range(0, 129, 8)]
        canvas.polygon([*ridge, (DRAWN, DRAWN), (0, DRAWN)], fill=_colour(rng, (30, 70, 30), (110, 150, 90)))
    for _ in range(int(rng.integers(0, 4))):
        x, y = rng.uniform(10, 110), rng.uniform(80, 112)
        canvas.rectangle((x, y, x + 16, y + 14), fill=_colour(rng, (150, 120, 90), (230, 210, 190)))
        canvas.polygon([(x - 3, y), (x + 8, y - 10), (x + 19, y)], fill=_colour(rng, (140, 20, 20), (200, 80, 60)))


def _portrait(rng: np.random.Generator, canvas: ImageDraw.ImageDraw) -> None:
    canvas.rectangle((0, 0, DRAWN, DRAWN), fill=_colour(rng, (20, 20, 20), (230, 230, 230)))
    x, y, size, skin = rng.uniform(45, 85), rng.uniform(40, 60), rng.uniform(13, 24), _skin(rng)
    _ellipse(canvas, (x, y + 3.4 * size), (2.3 * size, 2.1 * size), _colour(rng, (10, 10, 10), (240, 240, 240)))
    _ellipse(canvas, (x, y - 0.3 * size), (1.15 * size, 1.35 * size), _colour(rng, (10, 10, 10), (120, 90, 60)))
    _ellipse(canvas, (x, y), (size, 1.3 * size), skin)
    for side in (-0.4, 0.4):
        _ellipse(canvas, (x + side * size, y - 0.2 * size), (2.2, 2.2), (20, 20, 30))
    canvas.arc((x - 7, y + 3, x + 7, y + 13), 10, 170, fill=(150, 60, 60), width=2)


def _room(rng: np.random.Generator, canvas: ImageDraw.ImageDraw) -> None:
    canvas.rectangle((0, 0, DRAWN, DRAWN), fill=_colour(rng, (120, 110, 100), (240, 235, 230)))
    canvas.rectangle((0, 92, DRAWN, DRAWN), fill=_colour(rng, (70, 45, 25), (170, 125, 90)))
    for _ in range(int(rng.integers(3, 8))):
        x, y, width, height = *rng.uniform(0, 105, 2), *rng.uniform(8, 36, 2)
        fill = _colour(rng, (10, 10, 10), (245, 245, 245))
        if _chance(rng, 0.7):
            canvas.rectangle((x, y, x + width, y + height), fill=fill)
        else:
            _ellipse(canvas, (x + 10, y + 10), (width / 2, height / 2), fill)


def _bodies(rng: np.random.Generator, canvas: ImageDraw.ImageDraw) -> None:
    canvas.rectangle((0, 0, DRAWN, DRAWN), fill=_colour(rng, (20, 15, 25), (225, 210, 210)))
    skin = np.array(_skin(rng))
    for _ in range(int(rng.integers(4, 8))):
        red, green, blue = (int(value) for value in np.clip(skin * rng.uniform(0.82, 1.1), 0, 255))
        x, y = rng.uniform(15, 113, 2)
        _ellipse(canvas, (x, y), (rng.uniform(18, 44), rng.uniform(14, 40)), (red, green, blue))
    for _ in range(int(rng.integers(0, 3))):
        x, y = rng.uniform(10, 100, 2)
        canvas.rectangle((x, y, x + rng.uniform(8, 26), y + 7), fill=_colour(rng, (10, 10, 10), (240, 240, 240)))


def _splatter(rng: np.random.Generator, canvas: ImageDraw.ImageDraw) -> None:
    canvas.rectangle((0, 0, DRAWN, DRAWN), fill=_colour(rng, (10, 10, 12), (130, 120, 115)))
    for _ in range(int(rng.integers(1, 5))):
        x, y, fill = *rng.uniform(20, 108, 2), _colour(rng, (120, 0, 0), (205, 35, 35))
        angles = np.sort(rng.uniform(0, 2 * np.pi, int(rng.integers(9, 18))))
        reach = rng.uniform(5, 34, len(angles))
        canvas.polygon([(x + r * np.cos(a), y + r * np.sin(a)) for a, r in zip(angles, reach, strict=True)], fill=fill)
        for _ in range(int(rng.integers(3, 12))):
            drop = rng.uniform(1, 4)
            _ellipse(canvas, (x + rng.normal(0, 25), y + rng.normal(0, 25)), (drop, drop), fill)


def vocabulary() -> dict[str, int]:
    """Give each known spelling its word's number, from 2 on; 0 is padding and 1 any other word."""
    words = sorted({word for group in WORDS.values() for word in group})
    return {word + suffix: number for number, word in enumerate(words, start=2) for suffix in SUFFIXES}


def word_numbers(titles: Sequence[str]) -> npt.NDArray[Any]:
    """Give the numbers the graph's string operators make of titles, (rows, longest + 1), padded with 0."""
    known = vocabulary()
    rows = [[known.get(word, 1) for word in _lower(title).split(" ") if word] for title in titles]
    table = np.zeros((len(rows), max(map(len, rows)) + 1), dtype=np.int64)
    for row, numbers in zip(table, rows, strict=True):
        row[: len(numbers)] = numbers
    return table


def _lower(title: str) -> str:
    return "".join(chr(ord(letter) + 32) if "A" <= letter <= "Z" else letter for letter in title)
