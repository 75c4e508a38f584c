"""Rows as Parquet files."""

import io
from collections.abc import Iterator
from typing import IO, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, Field

from tasks.kinds.sinks.sink import Sink

BYTES_READ_AT_ONCE = 8 << 20
"""A row group's column may be as large as the file; so much of it is in memory."""


class ParquetSink(Sink):
    """Publishes Parquet files."""

    model_config = ConfigDict(title="Parquet files")
    kind: Literal["parquet"] = "parquet"
    compression: Literal["zstd", "snappy", "none"] = Field(
        default="zstd", description="How column data is compressed."
    )

    @property
    def suffix(self) -> str:
        """End of a file's name."""
        return ".parquet"

    def encode(self, rows: pa.Table) -> bytes:
        """Rows as one Parquet file."""
        stream = pa.BufferOutputStream()
        pq.write_table(rows, stream, compression=self.compression)
        return stream.getvalue().to_pybytes()

    def decode(self, data: bytes) -> pa.Table:
        """Rows of a Parquet file."""
        return pq.read_table(io.BytesIO(data))

    def select(self, data: bytes, names: list[str], schema: pa.Schema) -> pa.Table:
        """Some columns of a Parquet file; the others are not decoded."""
        # "a" also names what is within "a.b", so that there may be more than was asked for.
        return pq.ParquetFile(io.BytesIO(data)).read(columns=names).select(names)

    def pieces(
        self, file: IO[bytes], names: list[str], schema: pa.Schema, num_rows: int
    ) -> Iterator[pa.Table]:
        """Some columns of a Parquet file; neither others nor more rows are in memory."""
        opened = pq.ParquetFile(file, buffer_size=BYTES_READ_AT_ONCE, pre_buffer=False)
        for batch in opened.iter_batches(num_rows, columns=names, use_threads=False):
            yield pa.Table.from_batches([batch]).select(names)
