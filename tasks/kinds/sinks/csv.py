"""Rows as CSV files with a header."""

import json
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pydantic import ConfigDict, Field

from tasks.errors import SchemaMismatch
from tasks.kinds.lossless import bare
from tasks.kinds.short_floats import short_floats
from tasks.kinds.sinks.json_texts import texts
from tasks.kinds.sinks.jsonl import from_json, in_pieces, without_bytes
from tasks.kinds.sinks.sink import Mask, Sink

UNSPELLED = b"<value out of range"
"""What Arrow writes in place of a date or time that it cannot spell."""
BYTES_AT_ONCE = 64 << 20
"""Far fewer than Arrow's texts hold, whatever JSON makes of them."""
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class CsvSink(Sink):
    """Publishes CSV: nested values as JSON text, null as nothing, empty text as two quotes."""

    model_config = ConfigDict(title="CSV")
    kind: Literal["csv"] = "csv"
    delimiter: str = Field(
        default=",",
        # Numbers and times are never in quotes: what they may hold cannot stand between them.
        pattern=r"^[,;|\t~^]$",
        description="Character between two values: one of , ; | ~ ^ or a tab.",
    )

    @property
    def suffix(self) -> str:
        """End of a file's name."""
        return ".csv"

    def encode(self, rows: pa.Table) -> bytes:
        """Rows as one CSV file.

        Raises:
            SchemaMismatch: a column holds bytes, or a time that nobody could read again.
        """
        rows = without_bytes(rows, "CSV")
        if len(rows):
            rows = pa.concat_tables([*in_pieces(rows, BYTES_AT_ONCE, len(rows))])
        rows = without_blank_lines(short_floats(flat(rows)))
        stream = pa.BufferOutputStream()
        options = pyarrow.csv.WriteOptions(delimiter=self.delimiter)
        pyarrow.csv.write_csv(rows, stream, options)
        data: bytes = stream.getvalue().to_pybytes()
        if UNSPELLED in data:
            refuse_unspelled(rows)
        return data

    def decode(self, data: bytes) -> pa.Table:
        """Rows of a CSV file; what a value was is inferred, nested values stay text."""
        return self.read(data, quoted_strings_can_be_null=False)

    def select(self, data: bytes, names: list[str], schema: pa.Schema) -> pa.Table:
        """Some columns of a CSV file: numbers, booleans, lists as they were, the rest as text."""
        rows = self.read(
            data,
            # A lone column's null is written as empty text.
            quoted_strings_can_be_null=len(schema) == 1,
            include_columns=names,
            column_types={name: text_type(schema.field(name).type) for name in names},
        )
        return unflat(rows, schema)

    def read(self, data: bytes, **convert: Any) -> pa.Table:
        """Rows of a file that `encode` made, converted as Arrow's `ConvertOptions` say."""
        return pyarrow.csv.read_csv(
            pa.BufferReader(data),
            # One block, so that types are inferred from all of it.
            pyarrow.csv.ReadOptions(block_size=len(data) + 1),
            pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            pyarrow.csv.ConvertOptions(null_values=[""], strings_can_be_null=True, **convert),
        )

    def drop_rows(self, data: bytes, keep: Mask) -> bytes:
        """A file without some of its rows; the others stay as they are, byte for byte."""
        header, *records = records_of(data)
        kept = [record for record, kept in zip(records, keep, strict=True) if kept]
        return b"".join([header, *kept])


def records_of(data: bytes) -> list[bytes]:
    """Records with their line ends: those at which every quote that was opened is closed."""
    content = np.frombuffer(data, dtype=np.uint8)
    # True and false only: numbers to count the quotes with would take eight times the file.
    is_inside = np.logical_xor.accumulate(content == ord('"'))
    ends = np.flatnonzero((content == ord("\n")) & ~is_inside) + 1
    starts = [0, *ends[:-1].tolist()]
    return [data[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]


def flat(rows: pa.Table) -> pa.Table:
    """Rows with nested values as JSON text, durations in seconds, UUIDs and the like as text."""
    for at, each in enumerate(rows.schema):
        if pa.types.is_duration(each.type):
            counts = rows[at].cast(pa.int64()).cast(pa.float64(), safe=False)
            values = pc.divide(counts, float(PER_SECOND[each.type.unit]))
        elif pa.types.is_nested(bare(each.type)):
            values = pa.chunked_array(map(texts_or_null, rows[at].chunks), pa.string())
        elif isinstance(each.type, pa.BaseExtensionType):
            text = [None if value is None else str(value) for value in rows[at].to_pylist()]
            values = pa.array(text, pa.string())
        else:
            continue
        rows = rows.set_column(at, each.name, values)
    return rows


def texts_or_null(values: pa.Array) -> pa.Array:
    """Values as JSON text, and null for none."""
    return pc.if_else(values.is_valid(), texts(values), None)


def refuse_unspelled(rows: pa.Table) -> None:
    """Refuse times that Arrow writes a remark for.

    Raises:
        SchemaMismatch: names the column.
    """
    for each in rows.schema:
        if pa.types.is_temporal(each.type):
            text = rows[each.name].cast(pa.string())
            if pc.any(pc.starts_with(text, UNSPELLED.decode())).as_py():
                problem = f"column {each.name!r} has a time outside the calendar: correct it in a "
                raise SchemaMismatch(f"{problem}step, or write Parquet")


def text_type(kind: pa.DataType) -> pa.DataType:
    """The type that a value's text is read as."""
    if pa.types.is_floating(kind):
        return pa.float64()
    return kind if pa.types.is_integer(kind) or pa.types.is_boolean(kind) else pa.string()


def unflat(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with JSON text as the nested values it was made of."""
    for at, name in enumerate(rows.column_names):
        kind = schema.field(name).type
        if pa.types.is_nested(bare(kind)):
            values = [text and json.loads(text) for text in rows[name].to_pylist()]
            rows = rows.set_column(at, name, from_json(values, kind))
    return rows


def without_blank_lines(rows: pa.Table) -> pa.Table:
    """A lone column's null would be a blank line, which readers take for no row at all."""
    if rows.num_columns != 1 or not rows[0].null_count:
        return rows
    text = pc.fill_null(rows[0].cast(pa.string()), "")
    return rows.set_column(0, rows.column_names[0], text)
