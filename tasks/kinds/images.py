"""Decodes images as they lie about in the world: one way in, 8-bit RGB out."""

import contextlib
import io
import struct
import zlib
from typing import Any

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
PROGRAM = "EPS"
"""The format that Pillow has another program run."""
ORIENTATION = 0x0112
BITS_PER_SAMPLE, WHITE_IS = 0x0102, 0x0106
"""Tags of TIFF; of the latter 0 stands for 0, and 1 for the largest number."""
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
        BadImage: it is empty, no image, a program that draws one, cut off, too large, or of 32 bits
            a pixel and nobody can tell which number is white; says which.
    """
    if not data:
        raise BadImage("the file has zero bytes")
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.format == PROGRAM:
                raise BadImage(
                    f"it is {PROGRAM}, a program that Ghostscript would run to draw it, which is "
                    "never done: convert it, as to PNG"
                )
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
    if image.mode.startswith("I") or image.mode == "F":
        grey = as_stored_in_16_bits(np.nan_to_num(np.asarray(image)), image)
        image = Image.fromarray(in_8_bits(grey, is_deep(image)))
    image = image if turn is None else image.transpose(turn)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return np.asarray(image.convert("RGB"))


def is_deep(image: Image.Image) -> bool:
    """Whether the file says that its grey is one of 16 bits."""
    return image.mode.startswith("I;16") or (image.mode, image.format) == ("I", "PPM")


def as_stored_in_16_bits(grey: npt.NDArray[Any], image: Image.Image) -> npt.NDArray[Any]:
    """Grey of TIFF files that have 12 bits a pixel, or 0 for white, as others have it.

    Pillow hands out the numbers as they are in the file, and makes 8 bits alone what they mean.
    """
    tags = getattr(image, "tag_v2", {})
    if tuple(tags.get(BITS_PER_SAMPLE, ())) == (12,):
        grey = grey << 4 | grey >> 8
    is_negative = is_deep(image) and tags.get(WHITE_IS) == 0
    return 65_535 - grey if is_negative else grey


def in_8_bits(grey: npt.NDArray[Any], says_16_bits: bool) -> Pixels:
    """Grey of more than 8 bits as 8.

    Files with 32 bits a pixel do not say which number is white. Whole numbers are taken for those
    of 16 bits, and floats for those of 8; what cannot be that, or would come out black, is refused.

    Raises:
        BadImage: nobody can say what is black and what white.
    """
    low, high = grey.min(), grey.max()
    is_whole = grey.dtype.kind in "iu"
    black, white = (255, 65_535) if is_whole else (1, 255)
    is_guess = high <= black and (low, high) != (0, 0)
    if not says_16_bits and (low < 0 or high > white or is_guess):
        kind = "whole numbers" if is_whole else "floats"
        raise BadImage(
            f"its pixels are {kind} of 32 bits from {low:g} to {high:g}, so black and white are "
            "unknown: store them in 8 bits, or read the files as `binary` and decode them in "
            "your own step"
        )
    return (grey // 257 if is_whole else grey).astype(np.uint8)


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
