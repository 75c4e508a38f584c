"""Videos made on the spot: frames that can be told apart, in any format that FFmpeg writes."""

import struct
from pathlib import Path

import numpy as np

from tasks.kinds.images import Pixels

CODECS = {".mp4": "libx264", ".mkv": "libx264", ".avi": "mpeg4", ".webm": "libvpx-vp9"}
CODECS |= {".m2ts": "libx264", ".wmv": "wmv2"}
CLOCKWISE = (0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30)
"""The matrix of a telephone held upright."""


def picture(number: int, height: int = 48, width: int = 64) -> Pixels:
    """Grey that says the frame's number, with a white corner at the top left."""
    pixels = np.full((height, width, 3), 20 + 4 * (number % 50), np.uint8)
    pixels[:16, :16] = 255
    return pixels


def save(file: Path, frames: int = 50, rate: int = 10, noise: int = 0) -> Path:
    """A video of so many frames; the header comes first.

    Args:
        file: whose name says the format.
        frames: how many.
        rate: frames a second.
        noise: how much of it there is: the more, the larger the file.
    """
    import av

    random = np.random.default_rng(0)
    options = {"movflags": "faststart"} if file.suffix == ".mp4" else {}
    with av.open(str(file), "w", options=options) as container:
        stream = container.add_stream(CODECS[file.suffix], rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.bit_rate = 2_000_000  # else grey is only roughly so
        for number in range(frames):
            pixels = picture(number)
            pixels[16:] += random.integers(0, noise + 1, pixels[16:].shape, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
        container.mux(stream.encode(None))
    return file


def turn(file: Path) -> None:
    """Say in an MP4 file that it is to be shown a quarter turn clockwise."""
    content = bytearray(file.read_bytes())
    at = content.index(b"tkhd") + 44
    content[at : at + 36] = struct.pack(">9i", *CLOCKWISE)
    file.write_bytes(content)
