"""Images: oriented, three channels, resized; bombs, damage and other files are refused."""

from __future__ import annotations

import base64
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from serving.errors import InvalidRequestError
from serving.prediction import images


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF", "JPEG"])
def test_each_format_gives_the_declared_tensor(kind: str) -> None:
    tensor = images.to_tensor(encoded(Image.new("RGB", (200, 100), (255, 0, 0)), kind), height=64, width=32)
    assert (tensor.shape, tensor.dtype) == ((1, 64, 32, 3), np.uint8)
    assert tensor[0, 32, 16, 0] > 250
    assert tensor[0, 32, 16, 1:].max() < 5


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "CMYK", "I;16", "1"])
def test_every_mode_becomes_three_channels(mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    assert images.to_tensor(encoded(Image.new(mode, (10, 10)), kind), height=8, width=8).shape == (1, 8, 8, 3)


def test_an_image_is_turned_as_its_exif_says() -> None:
    image = Image.new("RGB", (64, 64), (0, 0, 0))
    image.paste((255, 255, 255), (0, 0, 64, 32))  # the upper half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # EXIF 2.32, Orientation: the 0th row is the visual right-hand side
    tensor = images.to_tensor(encoded(image, "JPEG", exif=exif.tobytes(), quality=95), height=64, width=64)[0]
    assert tensor[:, 48:].mean() > 250
    assert tensor[:, :16].mean() < 5


def test_an_image_of_the_declared_size_is_not_resampled() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    tensor = images.to_tensor(encoded(Image.fromarray(pixels)), height=64, width=64)
    assert np.array_equal(tensor[0], pixels)


def png_header(width: int, height: int) -> bytes:
    """Give a PNG that claims a size and holds almost nothing (PNG specification, 5.3 and 11.2.2)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(5_001, 5_000), (12_001, 1), (20_000, 20_000), (60_000, 60_000)])
def test_a_bomb_is_refused_before_a_pixel_is_decoded(width: int, height: int) -> None:
    with pytest.raises(InvalidRequestError, match="send a smaller image"):
        images.to_tensor(png_header(width, height), height=64, width=64)


@pytest.mark.parametrize(
    "data",
    [b"", b"text", b"%PDF-1.7", b"II*\0" + bytes(100), b"BM" + bytes(100)],
    ids=["empty", "text", "pdf", "tiff", "bmp"],
)
def test_what_is_no_allowed_image_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="image"):
        images.to_tensor(data, height=64, width=64)


@given(keep=st.floats(0.05, 0.95), flip=st.integers(0, 10_000))
def test_a_damaged_file_is_an_image_or_a_refusal_and_nothing_else(keep: float, flip: int) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    data = bytearray(encoded(Image.fromarray(pixels)))
    data[flip % len(data)] ^= 0x55
    for damaged in (bytes(data), bytes(data[: int(len(data) * keep)])):
        try:
            assert images.to_tensor(damaged, height=8, width=8).shape == (1, 8, 8, 3)
        except InvalidRequestError as error:
            assert "image" in str(error)  # noqa: PT017 - either way is right, but no other error is


def test_base64_is_strict_and_bounded() -> None:
    assert images.from_base64(base64.b64encode(b"abc").decode()) == b"abc"
    for text in ("data:image/png;base64,AAAA", "A", "AA AA", "AAé="):
        with pytest.raises(InvalidRequestError, match="image_base64"):
            images.from_base64(text)
    with pytest.raises(InvalidRequestError, match="bytes"):
        images.from_base64(base64.b64encode(bytes(images.MAX_IMAGE_BYTES + 1)).decode())
