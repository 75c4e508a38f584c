"""Decodes images as they lie about in the world: one way in, 8-bit RGB out."""

import contextlib
import io
import struct
import zlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image, UnidentifiedImageError

Pixels = npt.NDArray[np.uint8]

MAX_PIXELS = 178_956_970
"""A third of a gigapixel's bytes in memory; more is as a rule a bomb. Pillow's own limit."""
MAX_DECODED_BYTES = 2 << 30
"""Of a column's images, where there are several: small files can become any size."""
JPEG = b"\xff\xd8\xff"
ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# What Pillow's readers raise on damaged files.
DECODER_ERRORS = (
    *(OSError, SyntaxError, EOFError, LookupError, TypeError, ValueError),
    *(ArithmeticError, AttributeError, AssertionError, struct.error, zlib.error),
)


class BadImage(ValueError):
    """An image cannot be decoded; says why."""


def decode_image(data: bytes) -> Pixels:
    """Decode an image file.

    Args:
        data: the file's bytes, in any format Pillow knows.

    Returns:
        Pixels, (height, width, 3) of uint8, RGB; upright as EXIF says, the first frame of an
        animation, transparency on white, 16-bit scaled to 8.

    Raises:
        BadImage: it is empty, no image, cut off, or too large; says which.
    """
    if not data:
        raise BadImage("the file has zero bytes")
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise BadImage(f"{width} x {height} pixels; at most {MAX_PIXELS:,} are decoded")
            if data.startswith(JPEG) and image.mode == "RGB" and turn_of(image) is None:
                with contextlib.suppress(
                    ValueError
                ):  # Pillow forgives more, and says what is wrong
                    return decode_jpeg(data)
            return to_rgb(image)
    except UnidentifiedImageError as error:
        raise BadImage("the file is not an image that can be read") from error
    except Image.DecompressionBombError as error:
        raise BadImage(f"too many pixels: {error}") from error
    except BadImage:
        raise
    except DECODER_ERRORS as error:
        raise BadImage(f"the image is cut off or corrupt: {error}") from error


def turn_of(image: Image.Image) -> Image.Transpose | None:
    """How EXIF asks for the image to be turned; what is no EXIF asks for nothing."""
    with contextlib.suppress(*DECODER_ERRORS):
        return TURNS.get(image.getexif().get(ORIENTATION, 1))
    return None


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
    turn = turn_of(image)  # Pillow's own way writes EXIF anew, and fails where that is odd
    image = image if turn is None else image.transpose(turn)
    if image.mode.startswith("I") or image.mode == "F":
        grey = np.asarray(image)
        grey = np.nan_to_num(grey) if image.mode == "F" else grey // 257
        image = Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return np.asarray(image.convert("RGB"))


def decode_column(column: pa.ChunkedArray) -> list[Pixels | None]:
    """A column of encoded images as arrays.

    Raises:
        BadImage: one of them cannot be decoded.
        MemoryError: several of them are too much; fewer at a time may fit.
    """
    found, size = list[Pixels | None](), 0
    for value in column:
        pixels = None if not value.is_valid else decode_image(value.as_py())
        size += 0 if pixels is None else pixels.nbytes
        if found and size > MAX_DECODED_BYTES:
            images = f"{len(found) + 1} of {len(column)} images"
            raise MemoryError(f"{images} take {size:,} bytes; at most {MAX_DECODED_BYTES:,} do")
        found.append(pixels)
    return found
