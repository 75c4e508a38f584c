"""Images: cut off, damaged, enormous, and good ones of odd kinds."""

import io
import random
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image, PngImagePlugin

from tests.hostile.files import Hostile, cuts, flips, wrong

PIXELS = np.kron(np.arange(24).reshape(4, 6) * 10, np.ones((8, 8))).astype(np.uint8)
PICTURE = Image.fromarray(
    np.dstack([PIXELS, PIXELS.T.repeat(2, 0)[:32].repeat(2, 1)[:, :48], PIXELS])
)
ENDINGS = {"PNG": "png", "JPEG": "jpg", "GIF": "gif", "BMP": "bmp", "TIFF": "tif", "WEBP": "webp"}


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    """An image as a file."""
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def images(seed: random.Random) -> Iterator[Hostile]:
    """All of them."""
    for form, ending in ENDINGS.items():
        whole = encoded(PICTURE, form)
        damaged = [*cuts(whole, boundaries(form, whole)), *flips(whole, 6, seed)]
        for name, content in damaged:
            # What is missing at the very end need not be seen.
            early = name.startswith("cut") and len(content) < len(whole) * 3 // 4
            yield Hostile("images", f"{name}.{ending}", content, None, True if early else None)
        for name, content in wrong(whole).items():
            yield Hostile("images", f"{name}.{ending}", content, None, form != "WEBP" or None)
    for name, content in odd().items():
        yield Hostile("images", f"odd {name}", content, 1, False)
    unknown = encoded(Image.fromarray(np.array([[0, 0.5, 1]], np.float32)), "TIFF")
    yield Hostile("images", "of no known white.tif", unknown, 0, True)
    for name, content in bombs().items():
        yield Hostile("images", f"bomb {name}", content, 0, True)


def boundaries(form: str, content: bytes) -> list[int]:
    """Where a part of the file ends and the next begins; where that is not told, every eighth."""
    at, found = 0, list[int]()
    if form == "PNG":
        at = 8
        while at < len(content):
            found.append(at)
            at += 12 + int.from_bytes(content[at : at + 4])
    elif form == "JPEG":
        at = 2
        while at < len(content) and content[at + 1] != 0xDA:
            found.append(at)
            at += 2 + int.from_bytes(content[at + 2 : at + 4])
        found += [at, at + 2, (at + len(content)) // 2]
    else:
        found = [len(content) * each // 8 for each in range(8)]
    return found


def odd() -> dict[str, bytes]:
    """Good images as few people make them."""
    deep = Image.fromarray(PIXELS.astype(np.uint16) * 257)
    clear = PICTURE.convert("RGBA")
    clear.putalpha(100)
    several = {"save_all": True, "append_images": [PICTURE.rotate(180)] * 3}
    found = {
        "cmyk.jpg": encoded(PICTURE.convert("CMYK"), "JPEG"),
        "progressive.jpg": encoded(PICTURE, "JPEG", progressive=True),
        "grey.jpg": encoded(PICTURE.convert("L"), "JPEG"),
        "sixteen bits.png": encoded(deep, "PNG"),
        "sixteen bits.tif": encoded(deep, "TIFF"),
        "thirty-two bits.tif": encoded(deep.convert("I"), "TIFF"),
        "fractions.tif": encoded(PICTURE.convert("F"), "TIFF"),
        "fractions that are none.tif": encoded(
            Image.fromarray(np.full((9, 9), np.nan, np.float32)), "TIFF"
        ),
        "lab.tif": encoded(PICTURE.convert("LAB"), "TIFF"),
        "cmyk.tif": encoded(PICTURE.convert("CMYK"), "TIFF"),
        "palette.png": encoded(PICTURE.quantize(8), "PNG"),
        "palette with transparency.png": encoded(PICTURE.quantize(8), "PNG", transparency=3),
        "transparent.png": encoded(clear, "PNG"),
        "transparent.webp": encoded(clear, "WEBP"),
        "grey and transparent.png": encoded(clear.convert("LA"), "PNG"),
        "black and white.png": encoded(PICTURE.convert("1"), "PNG"),
        "black and white.tif": encoded(PICTURE.convert("1"), "TIFF", compression="group4"),
        "animated.gif": encoded(PICTURE, "GIF", **several),
        "animated.webp": encoded(PICTURE, "WEBP", **several),
        "animated.png": encoded(PICTURE, "PNG", **several),
        "pages.tif": encoded(PICTURE, "TIFF", **several),
        "one pixel.png": encoded(PICTURE.crop((0, 0, 1, 1)), "PNG"),
        "one line.png": encoded(PICTURE.resize((5000, 1)), "PNG"),
        "another ending.png": encoded(PICTURE, "JPEG"),
        "with a trailer.jpg": encoded(PICTURE, "JPEG") + b"<?php ?>" * 100,
    }
    for turn in range(2, 9):
        exif = Image.Exif()
        exif[0x0112] = turn
        found[f"turned {turn}.jpg"] = encoded(PICTURE, "JPEG", exif=exif)
    exif = Image.Exif()
    exif[0x0112] = 77
    found["turned as nobody can.jpg"] = encoded(PICTURE, "JPEG", exif=exif)
    found["with EXIF that is none.jpg"] = encoded(PICTURE, "JPEG", exif=b"Exif\0\0" + b"MM\0*" * 9)
    return found


def bombs() -> dict[str, bytes]:
    """A few bytes that say, or become, gigapixels."""
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "x" * (3 << 20), zip=True)
    jpeg = bytearray(encoded(PICTURE, "JPEG"))
    at = jpeg.index(b"\xff\xc0")
    jpeg[at + 5 : at + 9] = struct.pack(">HH", 65_500, 65_500)
    gif = bytearray(encoded(PICTURE, "GIF"))
    gif[6:10] = struct.pack("<HH", 65_535, 65_535)
    bmp = bytearray(encoded(PICTURE, "BMP"))
    bmp[18:26] = struct.pack("<ii", 60_000, 60_000)
    return {
        "says so.png": png(60_000, 60_000, zlib.compress(bytes(1000))),
        "just too large.png": png(14_000, 14_000, zlib.compress(bytes(14_000 * 1751), 9)),
        "wide.png": png(2**31 - 1, 1, zlib.compress(bytes(1000))),
        "says so.jpg": bytes(jpeg),
        "says so.gif": bytes(gif),
        "says so.bmp": bytes(bmp),
        "in a comment.png": encoded(PICTURE, "PNG", pnginfo=text),
    }


def png(width: int, height: int, data: bytes) -> bytes:
    """One bit a pixel."""
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )
