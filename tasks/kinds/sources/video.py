"""Frames of video files at even times, one row each."""

import io
from collections.abc import Callable, Iterator
from typing import IO, Any, ClassVar, Literal

import pyarrow as pa
from PIL import Image
from pydantic import ConfigDict, Field

from tasks.kinds.column_types import IMAGE, MEDIA
from tasks.kinds.extras import require
from tasks.kinds.images import Pixels
from tasks.kinds.sources.source import BadRow, Read, Source
from tasks.kinds.video import CutOffVideo, DamagedVideo, sampled_frames
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

Encoding = Literal["jpeg", "png"]
SCHEMA = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("frame", pa.int64()),
        pa.field("seconds", pa.float64()),
        pa.field("image", pa.binary(), metadata={MEDIA: IMAGE}),
    ]
)
SUFFIXES = (
    *(".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi"),
    *(".mpg", ".mpeg", ".m2ts", ".wmv", ".flv", ".3gp", ".ogv"),
)
JPEG_QUALITY = 95


class VideoSource(Source):
    """Frames of video files, one row each: `path`, `frame`, `seconds` and `image`."""

    model_config = ConfigDict(title="Video")
    kind: Literal["video"] = "video"
    every_seconds: float | None = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Take the first frame of each stretch of this many seconds: 0.5 gives two a "
        "second. Empty: every frame.",
    )
    max_frames: int | None = Field(
        default=None, ge=1, description="Maximum number of rows of one video. Empty: all."
    )
    encoding: Encoding = Field(
        default="jpeg",
        description="How frames travel: jpeg is small and quick, but some pixels are off by a few "
        "grey levels; png keeps every pixel as it was, at several times the size and time.",
    )
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    has_media: ClassVar[bool] = True
    hides_underscores: ClassVar[bool] = False  # cameras name files so

    def check(self) -> None:
        """See that the decoder is installed."""
        require("source.kind", self.kind, "av", "video")

    def schema_of_rows(self, pins: dict[str, Any]) -> pa.Schema:
        """The same for all files."""
        return SCHEMA

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the frames in order; what is damaged is a bad row in its place."""
        path, encode = storage.url_of(shard.path), ENCODE[self.encoding]
        with storage.open(shard.path) as file:
            if is_empty(file, shard):  # FFmpeg would look for the byte before its end
                yield BadRow(CutOffVideo("the file has zero bytes"), is_rest=True)
                return
            for count, found in enumerate(sampled_frames(file, self.every_seconds)):
                if count == self.max_frames:
                    return
                if isinstance(found, DamagedVideo):
                    yield BadRow(found, is_rest=isinstance(found, CutOffVideo))
                    continue
                try:
                    picture = encode(found.pixels)
                except ValueError as error:  # JPEG has no room for more than 65,500 pixels a side
                    yield BadRow(error)
                    continue
                values: list[list[Any]] = [
                    [path],
                    [found.number],
                    [float(found.seconds)],
                    [picture],
                ]
                yield pa.table(values, schema=SCHEMA)


def is_empty(file: IO[bytes], shard: Shard) -> bool:
    """Whether nothing is in a file; web servers that send it as it comes do not say its size."""
    if shard.size:
        return False
    is_at_end = not file.read(1)
    file.seek(0)
    return is_at_end


def encode_jpeg(pixels: Pixels) -> bytes:
    """With colours as sharp as the rest."""
    import simplejpeg

    encoded: bytes = simplejpeg.encode_jpeg(
        pixels, quality=JPEG_QUALITY, colorspace="RGB", colorsubsampling="444"
    )
    return encoded


def encode_png(pixels: Pixels) -> bytes:
    """Without loss, as quickly as that goes."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


ENCODE: dict[Encoding, Callable[[Pixels], bytes]] = {"jpeg": encode_jpeg, "png": encode_png}
