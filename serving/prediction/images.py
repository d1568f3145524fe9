"""Image bytes to the declared tensor: decode, orient, three channels, resize; nothing that belongs to a version."""

from __future__ import annotations

import base64
import binascii
import io

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from serving.errors import InvalidRequestError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
MAX_IMAGE_BYTES = 4 * 1024 * 1024
MAX_PIXELS = 25_000_000
MAX_SIDE = 12_000


def from_base64(text: str) -> bytes:
    """Give the bytes of standard base 64 text.

    Raises:
        InvalidRequestError: other characters, or more bytes than `MAX_IMAGE_BYTES`.

    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequestError(
            f"image_base64: got text that is no base 64 ({error}); allowed standard base 64 without a data: prefix; "
            f"encode the file's bytes"
        ) from None
    if not 0 < len(data) <= MAX_IMAGE_BYTES:
        raise InvalidRequestError(
            f"image_base64: got {len(data)} bytes; allowed 1 to {MAX_IMAGE_BYTES}; send a smaller image"
        )
    return data


def to_tensor(data: bytes, *, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Give UINT8 [1, height, width, 3], RGB.

    Raises:
        InvalidRequestError: no image of an allowed format, damaged, or too large to decode safely.

    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_size(*image.size)  # from the header: no pixel is decoded yet
            upright = ImageOps.exif_transpose(image)
            fitted = upright.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    except UnidentifiedImageError:
        raise InvalidRequestError(
            f"image: got bytes that are no image; allowed {', '.join(FORMATS)}; send the file's bytes"
        ) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise InvalidRequestError(_too_large("more pixels than its format may hold")) from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:  # what Pillow's decoders raise for damaged files
        raise InvalidRequestError(
            f"image: got a damaged file ({error}); allowed a whole {', '.join(FORMATS)} file; send it again"
        ) from None
    return np.asarray(fitted, dtype=np.uint8)[np.newaxis]


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS or max(width, height) > MAX_SIDE:
        raise InvalidRequestError(_too_large(f"{width} x {height} pixels"))


def _too_large(got: str) -> str:
    return f"image: got {got}; allowed {MAX_PIXELS} pixels and {MAX_SIDE} a side; send a smaller image"
