"""Decodes images as they lie about in the world: one way in, 8-bit RGB out."""

import contextlib
import io
import struct
import zlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image, ImageOps, UnidentifiedImageError

Pixels = npt.NDArray[np.uint8]

MAX_PIXELS = 178_956_970
"""A third of a gigapixel's bytes in memory; more is as a rule a bomb. Pillow's own limit."""
JPEG = b"\xff\xd8\xff"
ORIENTATION = 0x0112
# What Pillow's readers raise on damaged files.
DECODER_ERRORS = (OSError, SyntaxError, EOFError, LookupError, TypeError, struct.error, zlib.error)


def decode_image(data: bytes) -> Pixels:
    """Decode an image file.

    Args:
        data: the file's bytes, in any format Pillow knows.

    Returns:
        Pixels, (height, width, 3) of uint8, RGB; upright as EXIF says, the first frame of an
        animation, transparency on white, 16-bit scaled to 8.

    Raises:
        ValueError: it is empty, no image, cut off, or too large; says which.
    """
    if not data:
        raise ValueError("the file has zero bytes")
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise ValueError(f"{width} x {height} pixels; at most {MAX_PIXELS:,} are decoded")
            if data.startswith(JPEG) and image.mode == "RGB" and upright(image):
                with contextlib.suppress(
                    ValueError
                ):  # Pillow forgives more, and says what is wrong
                    return decode_jpeg(data)
            return to_rgb(image)
    except UnidentifiedImageError as error:
        raise ValueError("the file is not an image that can be read") from error
    except Image.DecompressionBombError as error:
        raise ValueError(f"too many pixels: {error}") from error
    except DECODER_ERRORS as error:
        raise ValueError(f"the image is cut off or corrupt: {error}") from error


def upright(image: Image.Image) -> bool:
    """Whether EXIF asks for no turn."""
    return int(image.getexif().get(ORIENTATION, 1)) == 1


def decode_jpeg(data: bytes) -> Pixels:
    """A plain JPEG, several times as fast as Pillow does it.

    Raises:
        ValueError: it is cut off or corrupt.
    """
    import simplejpeg

    pixels: Pixels = simplejpeg.decode_jpeg(data, "RGB", strict=True)
    return pixels


def to_rgb(image: Image.Image) -> Pixels:
    """Any of Pillow's modes as 8-bit RGB."""
    image.load()
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I") or image.mode == "F":
        grey = np.asarray(image).astype(np.float64)
        scale = 257.0 if image.mode.startswith("I") else 1.0
        image = Image.fromarray(np.clip(grey / scale, 0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return np.asarray(image.convert("RGB"))


def decode_column(column: pa.ChunkedArray) -> list[Pixels | None]:
    """A column of encoded images as arrays.

    Raises:
        ValueError: one of them cannot be decoded.
    """
    return [None if value is None else decode_image(value) for value in column.to_pylist()]
