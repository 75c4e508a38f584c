"""Rows from Parquet files; big ones are cut into row groups."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, Field

from tasks.kinds.sources.source import ROWS_PER_READ, BadRow, Read, Source
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage, Stat

SPLIT_ABOVE_BYTES = 128 << 20


class ParquetSource(Source):
    """Tabular rows from Parquet files."""

    model_config = ConfigDict(title="Parquet files")
    kind: Literal["parquet"] = "parquet"
    columns: list[str] | None = Field(
        default=None, description="Read only these columns; all where empty."
    )
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def split(self, storage: FsspecStorage, stat: Stat) -> list[Shard]:
        """A small file is one shard; a big one is cut at row groups, whose lengths are known."""
        if stat.size <= SPLIT_ABOVE_BYTES:
            return super().split(storage, stat)
        with storage.open(stat.path) as file:
            try:
                metadata = pq.ParquetFile(file).metadata
            except pa.ArrowInvalid:
                return super().split(storage, stat)  # reading it says what is wrong
            sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
            rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        shards = []
        start = 0
        for stop in range(1, len(sizes) + 1):
            if stop == len(sizes) or sum(sizes[start : stop + 1]) > SPLIT_ABOVE_BYTES:
                first, count = sum(rows[:start]), sum(rows[start:stop])
                shards.append(
                    Shard(0, stat.path, stat.identity, stat.size, start, stop, first, count)
                )
                start = stop
        return shards

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the rows; a file or page that is not Parquet is a bad row."""
        with storage.open(shard.path) as opened:
            try:
                file = pq.ParquetFile(opened)
                groups = range(shard.start or 0, shard.stop or file.metadata.num_row_groups)
                batches = file.iter_batches(
                    ROWS_PER_READ, row_groups=list(groups), columns=self.columns
                )
                for batch in batches:
                    yield pa.Table.from_batches([batch])
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                yield BadRow(error)
            except OSError as error:
                # Arrow reports a corrupt page as an OSError without an errno.
                if type(error) is not OSError or error.errno is not None:
                    raise
                yield BadRow(error)
