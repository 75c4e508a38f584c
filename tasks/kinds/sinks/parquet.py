"""Rows as Parquet files."""

import io
from collections.abc import Iterator
from itertools import islice
from operator import not_
from typing import IO, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from tasks.kinds.blank_columns import refuse_lacking, with_blanks
from tasks.kinds.column_types import is_any_list, is_text
from tasks.kinds.sinks.sink import Sink
from tasks.kinds.tables.types import refuse_empty_objects

BYTES_READ_AT_ONCE = 8 << 20
"""A row group's column may be as large as the file; so much of it is in memory."""


class ParquetSink(Sink):
    """Publishes Parquet files."""

    model_config = ConfigDict(title="Parquet")
    kind: Literal["parquet"] = "parquet"
    compression: Literal["zstd", "snappy", "none"] = Field(
        default="zstd", description="How column data is compressed."
    )
    of_growing_table: SkipJsonSchema[bool] = Field(
        default=False,
        exclude_if=not_,
        description="Set by previews of a table with evolve_schema: rows may have new columns.",
    )

    @property
    def takes_new_columns(self) -> bool:
        """Never of files that are published: who reads a folder goes by one of them."""
        return self.of_growing_table

    @property
    def suffix(self) -> str:
        """End of a file's name."""
        return ".parquet"

    def schema_for(self, rows: pa.Schema) -> pa.Schema:
        """See Sink."""
        schema = super().schema_for(rows)
        refuse_empty_objects(schema)
        return schema

    def encode(self, rows: pa.Table) -> bytes:
        """Rows as one Parquet file."""
        stream = pa.BufferOutputStream()
        dictionaries = [path for each in rows.schema for path in texts_in(each.type, each.name)]
        pq.write_table(
            rows,
            stream,
            compression=self.compression,
            use_dictionary=dictionaries,
            write_page_checksum=True,
        )
        return stream.getvalue().to_pybytes()

    def decode(self, data: bytes) -> pa.Table:
        """Rows of a Parquet file."""
        return pq.read_table(io.BytesIO(data), page_checksum_verification=True)

    def first_rows(self, data: bytes, num_rows: int) -> pa.Table:
        """The same of so many rows at most: all of a file may be many times its size in memory."""
        opened = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        batches = opened.iter_batches(max(1, num_rows), use_threads=False)
        return pa.Table.from_batches(islice(batches, 1), opened.schema_arrow).slice(0, num_rows)

    def select(self, data: bytes, names: list[str], schema: pa.Schema) -> pa.Table:
        """Some columns of a Parquet file; the others are not decoded."""
        # "a" also names what is within "a.b", so that there may be more than was asked for.
        opened = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True)
        return self.whole(opened.read(columns=names), names, schema)

    def pieces(
        self, file: IO[bytes], names: list[str], schema: pa.Schema, num_rows: int
    ) -> Iterator[pa.Table]:
        """Some columns of a Parquet file; neither others nor more rows are in memory."""
        opened = pq.ParquetFile(
            file,
            buffer_size=BYTES_READ_AT_ONCE,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        for batch in opened.iter_batches(num_rows, columns=names, use_threads=False):
            yield self.whole(pa.Table.from_batches([batch]), names, schema)

    @property
    def may_lack_columns(self) -> bool:
        """Whether columns may have come to the output after a file was written."""
        return self.takes_new_columns

    def whole(self, rows: pa.Table, names: list[str], schema: pa.Schema) -> pa.Table:
        """A file's rows in these columns, without values in those that it was written without.

        Raises:
            ArrowKeyError: it lacks one that all files have.
        """
        if not self.may_lack_columns:
            refuse_lacking(rows.column_names, names)
        return with_blanks(rows, map(schema.field, names)).select(names)


def texts_in(kind: pa.DataType, path: str) -> Iterator[str]:
    """Where a column has text, as Parquet names its leaves: only there do dictionaries pay.

    Numbers that models make are nearly all different: to look each up takes four times as long as
    to write it, and the file becomes larger.
    """
    if pa.types.is_map(kind):
        yield from texts_in(kind.key_type, f"{path}.key_value.key")
        yield from texts_in(kind.item_type, f"{path}.key_value.value")
    elif pa.types.is_struct(kind):
        for each in kind:
            yield from texts_in(each.type, f"{path}.{each.name}")
    elif is_any_list(kind):
        yield from texts_in(kind.value_type, f"{path}.list.element")
    elif pa.types.is_dictionary(kind) or is_text(kind):
        yield path
