"""Rows as CSV files with a header."""

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pydantic import ConfigDict, Field

from tasks.kinds.sinks.jsonl import json_text, short_floats, without_bytes
from tasks.kinds.sinks.sink import Mask, Sink


class CsvSink(Sink):
    """Publishes CSV: nested values as JSON text, null as nothing, empty text as two quotes."""

    model_config = ConfigDict(title="CSV files")
    kind: Literal["csv"] = "csv"
    delimiter: str = Field(
        default=",", pattern=r'^[^"\r\n]$', description="What stands between two values."
    )

    @property
    def suffix(self) -> str:
        """End of a file's name."""
        return ".csv"

    def encode(self, rows: pa.Table) -> bytes:
        """Rows as one CSV file.

        Raises:
            SchemaMismatch: a column holds bytes.
        """
        rows = without_bytes(rows, "CSV")
        rows = without_blank_lines(flat(short_floats(rows)))
        stream = pa.BufferOutputStream()
        options = pyarrow.csv.WriteOptions(delimiter=self.delimiter)
        pyarrow.csv.write_csv(rows, stream, options)
        return stream.getvalue().to_pybytes()

    def decode(self, data: bytes) -> pa.Table:
        """Rows of a CSV file; what a value was is inferred, nested values stay text."""
        return pyarrow.csv.read_csv(
            pa.BufferReader(data),
            # One block, so that types are inferred from all of it.
            pyarrow.csv.ReadOptions(block_size=len(data) + 1),
            pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            pyarrow.csv.ConvertOptions(
                null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )

    def drop_rows(self, data: bytes, keep: Mask) -> bytes:
        """A file without some of its rows; the others stay as they are, byte for byte."""
        header, *records = records_of(data)
        kept = [record for record, kept in zip(records, keep, strict=True) if kept]
        return b"".join([header, *kept])


def records_of(data: bytes) -> list[bytes]:
    """Records with their line ends: those at which every quote that was opened is closed."""
    content = np.frombuffer(data, dtype=np.uint8)
    is_outside = np.cumsum(content == ord('"')) % 2 == 0
    ends = np.flatnonzero((content == ord("\n")) & is_outside) + 1
    starts = [0, *ends[:-1].tolist()]
    return [data[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]


def flat(rows: pa.Table) -> pa.Table:
    """Rows with nested values as JSON text."""
    for at, each in enumerate(rows.schema):
        if pa.types.is_nested(each.type):
            values = rows[each.name].to_pylist()
            text = [None if value is None else json_text(value) for value in values]
            rows = rows.set_column(at, each.name, pa.array(text, pa.string()))
    return rows


def without_blank_lines(rows: pa.Table) -> pa.Table:
    """A lone column's null would be a blank line, which readers take for no row at all."""
    if rows.num_columns != 1 or not rows[0].null_count:
        return rows
    text = pc.fill_null(rows[0].cast(pa.string()), "")
    return rows.set_column(0, rows.column_names[0], text)
