"""Files as they are, one row each."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.kinds.column_types import FILE, MEDIA
from tasks.kinds.sources.source import BadRow, Read, Source
from tasks.kinds.sources.whole_file import whole_file
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

SCHEMA = pa.schema(
    [pa.field("path", pa.string()), pa.field("bytes", pa.binary(), metadata={MEDIA: FILE})]
)


class BinarySource(Source):
    """Any files, one row each: `path` and `bytes`."""

    model_config = ConfigDict(title="Files")
    kind: Literal["binary"] = "binary"
    endings: list[str] = Field(
        default=[],
        description="Endings of file names to look for in folders, as in .pdf. Empty: every file.",
    )
    suffixes: ClassVar[tuple[str, ...]] = ()
    one_row_per_file: ClassVar[bool] = True
    has_media: ClassVar[bool] = True

    @property
    def endings_wanted(self) -> tuple[str, ...]:
        """What a folder is searched for."""
        return tuple(each.lower() for each in self.endings)

    def schema_of_rows(self, pins: dict[str, Any]) -> pa.Schema:
        """The same for all files."""
        return SCHEMA

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the file's row."""
        data, path = whole_file(storage, shard), storage.url_of(shard.path)
        if isinstance(data, BadRow):
            yield data
        else:
            yield pa.table({"path": [path], "bytes": [data]}, schema=SCHEMA)
