"""Image files, one row each; they travel encoded and are decoded where they are used."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict

from tasks.kinds.column_types import IMAGE, MEDIA
from tasks.kinds.sources.source import BadRow, Read, Source
from tasks.kinds.sources.whole_file import whole_file
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

SCHEMA = pa.schema(
    [pa.field("path", pa.string()), pa.field("image", pa.binary(), metadata={MEDIA: IMAGE})]
)
SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".avif"),
    *(".gif", ".bmp", ".tif", ".tiff"),
)


class ImagesSource(Source):
    """Image files, one row each: `path` and `image`."""

    model_config = ConfigDict(title="Images")
    kind: Literal["images"] = "images"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    one_row_per_file: ClassVar[bool] = True
    has_media: ClassVar[bool] = True
    hides_underscores: ClassVar[bool] = False  # cameras name files so

    def schema_of_rows(self, pins: dict[str, Any]) -> pa.Schema:
        """The same for all files."""
        return SCHEMA

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the file's row; the image stays encoded."""
        data, path = whole_file(storage, shard), storage.url_of(shard.path)
        if isinstance(data, BadRow):
            yield data
        else:
            yield pa.table({"path": [path], "image": [data]}, schema=SCHEMA)
