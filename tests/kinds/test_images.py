"""Images as they lie about in the world become 8-bit RGB, or a reason why not."""

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tasks.kinds import images
from tasks.kinds.columns import column_to_numpy, to_numpy, to_pandas
from tasks.kinds.images import BadImage, decode_image
from tasks.kinds.media import decode_media_columns
from tasks.kinds.sources.images import SCHEMA

TOP, BOTTOM = [(250, 10, 20), (20, 240, 30), (0, 0, 0)], [(30, 40, 230), (240,) * 3, (9, 9, 9)]
QUARTERS = np.kron(np.array([TOP, BOTTOM]), np.ones((16, 16, 1), int)).astype(np.uint8)
PICTURE = Image.fromarray(QUARTERS)
TURNED = Image.Exif()
TURNED[0x0112] = 6


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("form", "tolerance", "options"),
    [
        ("PNG", 0, {}),
        ("BMP", 0, {}),
        ("TIFF", 0, {"compression": "tiff_lzw"}),
        ("WEBP", 0, {"lossless": True}),
        ("AVIF", 6, {"quality": 100, "subsampling": "4:4:4"}),
        ("GIF", 0, {"save_all": True, "append_images": [PICTURE.rotate(180)]}),
        ("JPEG", 6, {"quality": 95, "subsampling": 0}),
        ("JPEG", 6, {"quality": 95, "subsampling": 0, "progressive": True}),
    ],
)
def test_formats(form: str, tolerance: int, options: dict[str, Any]) -> None:
    pixels = decode_image(encoded(PICTURE, form, **options))
    assert pixels.dtype == np.uint8
    assert pixels.shape == QUARTERS.shape
    assert np.abs(pixels.astype(int) - QUARTERS).max() <= tolerance


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_exif_orientation_is_honoured(form: str) -> None:
    pixels = decode_image(encoded(PICTURE, form, exif=TURNED))
    upright = np.rot90(QUARTERS, -1)
    assert pixels.shape == upright.shape
    assert np.abs(pixels[8::16, 8::16].astype(int) - upright[8::16, 8::16]).max() < 25


@pytest.mark.parametrize("orientation", range(1, 9))
def test_each_turn_is_pillows(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(PICTURE, "PNG", exif=exif)
    with Image.open(io.BytesIO(data)) as image:
        assert np.array_equal(decode_image(data), np.asarray(ImageOps.exif_transpose(image)))


ODD_MAKER = struct.pack(">2sHLHHHLLHHLHHL", b"MM", 42, 8, 2, 0x010F, 5, 1, 0, 0x0112, 3, 1, 6, 0, 0)
"""A number where a text is wanted, and a turn."""


@pytest.mark.parametrize(("exif", "turns"), [(b"no TIFF", 0), (ODD_MAKER, -1)])
@pytest.mark.parametrize("form", ["PNG", "WEBP"])
def test_odd_exif_costs_no_image(exif: bytes, turns: int, form: str) -> None:
    pixels = decode_image(encoded(PICTURE, form, exif=exif, lossless=True))
    assert np.array_equal(pixels, np.rot90(QUARTERS, turns))


def test_cmyk_jpeg() -> None:
    pixels = decode_image(encoded(PICTURE.convert("CMYK"), "JPEG", quality=95))
    assert np.abs(pixels[8::16, 8::16].astype(int) - QUARTERS[8::16, 8::16]).max() < 25


def test_a_program_that_draws_an_image_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow has Ghostscript run it, where that is installed."""
    ghostscript = tmp_path / "gs"
    ghostscript.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    ghostscript.chmod(0o755)
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", str(ghostscript))
    with pytest.raises(BadImage, match=r"EPS, a program that Ghostscript would run .* to PNG"):
        decode_image(encoded(PICTURE, "EPS"))
    assert not (tmp_path / "ran").exists()


def test_palette_and_grey() -> None:
    assert np.array_equal(decode_image(encoded(PICTURE.quantize(8), "PNG")), QUARTERS)
    grey = np.asarray(PICTURE.convert("L"))
    assert np.array_equal(decode_image(encoded(PICTURE.convert("L"), "PNG")), np.dstack([grey] * 3))


def test_transparency_is_white() -> None:
    clear = PICTURE.convert("RGBA")
    clear.putalpha(0)
    assert (decode_image(encoded(clear, "PNG")) == 255).all()
    palette = PICTURE.quantize(8)
    dark = palette.getpixel((40, 8))
    pixels = decode_image(encoded(palette, "PNG", transparency=dark))
    assert (pixels[8, 40] == 255).all()
    assert np.array_equal(pixels[8, 8], QUARTERS[8, 8])


def test_sixteen_bits_become_eight() -> None:
    deep = np.array([[0, 257, 32896, 65535]], np.uint16)
    pixels = decode_image(encoded(Image.fromarray(deep), "PNG"))
    assert pixels[0, :, 0].tolist() == [0, 1, 128, 255]


def tiff(bits: int, white_is: int, pixels: str) -> bytes:
    """A line of four grey pixels, given as hexadecimal."""
    data = bytes.fromhex(pixels.replace(" ", ""))
    tags = {256: 4, 257: 1, 258: bits, 259: 1, 262: white_is, 273: 110, 278: 1, 279: len(data)}
    entries = (struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return struct.pack("<2sHIH", b"II", 42, 8, 8) + b"".join(entries) + bytes(4) + data


@pytest.mark.parametrize(
    ("data", "grey"),
    [
        (tiff(12, 1, "000 808 fff 101"), [0, 128, 255, 16]),
        (tiff(16, 1, "0000 8080 ffff 0101"), [0, 128, 255, 1]),
        (tiff(16, 0, "0000 8080 ffff 0101"), [255, 127, 0, 254]),
    ],
)
def test_grey_is_what_the_file_says_that_its_numbers_mean(data: bytes, grey: list[int]) -> None:
    assert decode_image(data)[0, :, 0].tolist() == grey


@pytest.mark.parametrize(
    ("grey", "expected"),
    [
        (np.array([[0, 257, 65535]], np.int32), [0, 1, 255]),
        (np.array([[0, 1.9, np.nan, 255]], np.float32), [0, 1, 0, 255]),
        (np.zeros((1, 2), np.float32), [0, 0]),
    ],
)
def test_thirty_two_bits_become_eight_where_they_can_be_told(
    grey: npt.NDArray[Any], expected: list[int]
) -> None:
    assert decode_image(encoded(Image.fromarray(grey), "TIFF"))[0, :, 0].tolist() == expected


@pytest.mark.parametrize(
    ("grey", "said"),
    [
        (np.array([[0, 255]], np.int32), "whole numbers of 32 bits from 0 to 255,"),
        (np.array([[-1, 300]], np.int32), "whole numbers of 32 bits from -1 to 300,"),
        (np.array([[0, 0.5, 1]], np.float32), "floats of 32 bits from 0 to 1,"),
        (np.array([[0, 1000]], np.float32), "floats of 32 bits from 0 to 1000,"),
    ],
)
def test_thirty_two_bits_of_no_known_white_are_no_black_picture(
    grey: npt.NDArray[Any], said: str
) -> None:
    with pytest.raises(BadImage, match=said):
        decode_image(encoded(Image.fromarray(grey), "TIFF"))


def test_a_dark_picture_of_sixteen_bits_in_a_plain_format_is_dark() -> None:
    data = b"P5 2 1 65535\n" + np.array([0, 257], ">u2").tobytes()
    assert decode_image(data)[0, :, 0].tolist() == [0, 1]


def test_bytes_after_a_jpeg_are_forgiven() -> None:
    data = encoded(PICTURE, "JPEG")
    assert np.array_equal(decode_image(data + b"trailer"), decode_image(data))


JPEG = encoded(PICTURE, "JPEG", quality=95)
BOMB = bytearray(encoded(PICTURE, "PNG"))
BOMB[16:24] = (30_000).to_bytes(4) * 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "zero bytes"),
        (b"<html>not found</html>", "not an image"),
        (JPEG[: len(JPEG) // 2], "cut off"),
        (JPEG[:-2], "cut off"),
        (encoded(PICTURE, "PNG")[:-60], "cut off"),
        (encoded(PICTURE, "GIF")[:-9], "cut off"),
    ],
)
def test_reasons(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_image(data)


def test_too_many_pixels_are_refused_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 1000)
    with pytest.raises(ValueError, match=r"48 x 32 pixels; at most 1,000 are decoded"):
        decode_image(JPEG)


def test_bombs_are_refused() -> None:
    data = BOMB[:29] + zlib.crc32(BOMB[12:29]).to_bytes(4) + BOMB[33:]
    with pytest.raises(ValueError, match="too many pixels"):
        decode_image(bytes(data))


@settings(max_examples=200)
@given(
    data=st.sampled_from(
        [encoded(PICTURE, form) for form in ("PNG", "JPEG", "GIF", "BMP", "WEBP")]
    ),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=5),
    cut=st.none() | st.integers(0, 1000),
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_damage_is_a_value_error_or_an_image(
    data: bytes, changes: list[tuple[int, int]], cut: int | None
) -> None:
    damaged = bytearray(data)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    try:
        pixels = decode_image(bytes(damaged[:cut]))
    except ValueError:
        return
    assert pixels.ndim == 3


def table(*data: bytes | None) -> pa.Table:
    return pa.table({"path": [str(at) for at in range(len(data))], "image": data}, SCHEMA)


PNG, WIDE = encoded(PICTURE, "PNG"), encoded(PICTURE.resize((64, 8)), "PNG")


def test_images_are_of_one_type_whatever_their_sizes() -> None:
    """Rows around a broken image are decoded in parts, and the parts must go together."""
    same, mixed = decode_media_columns(table(PNG, PNG)), decode_media_columns(table(PNG, WIDE))
    assert same.schema == mixed.schema
    assert np.array_equal(column_to_numpy(same["image"]), np.stack([QUARTERS] * 2))


@pytest.mark.parametrize("second", [WIDE, None])
def test_images_of_several_sizes_become_tensors(second: bytes | None) -> None:
    first, other = column_to_numpy(decode_media_columns(table(PNG, second))["image"])
    assert np.array_equal(first, QUARTERS)
    assert other is None if second is None else other.shape == (8, 64, 3)


def test_no_rows() -> None:
    assert decode_media_columns(table()).num_rows == 0


def test_one_bad_image_raises() -> None:
    with pytest.raises(ValueError, match="zero bytes"):
        decode_media_columns(table(PNG, b"", b"x"))


def test_small_files_that_become_large_are_not_all_decoded_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(images, "MAX_DECODED_BYTES", QUARTERS.nbytes)
    assert decode_media_columns(table(PNG)).num_rows == 1
    with pytest.raises(MemoryError, match="2 of 3 images take 9,216 bytes; at most 4,608 do"):
        decode_media_columns(table(PNG, PNG, PNG))


@pytest.mark.parametrize("second", [PNG, WIDE])
def test_user_code_sees_arrays_it_may_write_to(second: bytes) -> None:
    rows = table(PNG, second)
    batch, frame = to_numpy(rows), to_pandas(rows)
    assert list(frame.columns) == rows.column_names
    for array in [*batch["image"], *frame["image"]]:
        assert array.dtype == np.uint8
        array[0, 0] = 0
    assert np.array_equal(batch["image"][0][1:], QUARTERS[1:])


def test_importing_needs_no_simplejpeg() -> None:
    code = "import sys, tasks.kinds.images; sys.exit('simplejpeg' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
