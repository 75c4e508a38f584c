"""Makes rows of CSV records; of one that is no row it says why."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.csv as pc
from pyarrow import compute

from tasks.counted import counted
from tasks.kinds.column_types import LATER_VALUE, NO_VALUE, is_text
from tasks.kinds.sources.csv_reading.records import Block
from tasks.kinds.sources.doubles import (
    WRAPPED,
    any_infinity,
    has_infinity,
    refuse_unwritten_infinity,
    refuse_wrapped,
)
from tasks.kinds.sources.source import BadRow, Read
from tasks.kinds.sources.text import (
    BOM,
    MOST_COLUMNS,
    RAW_CHARACTERS,
    halved,
    not_utf8,
    reads_of,
)

CONVERSION = re.compile(r"In CSV column #(\d+):.*?(conversion error to .*)", re.DOTALL)
FRACTION = re.compile(r"error to int64: invalid value '[-+]?\d*\.\d+'$")
"""Of a column that the first rows have whole numbers in."""
ABOVE = "; where {!r} stands above the header, source.skip_lines passes over it"
SEPARATOR = re.compile(rb'"?sep=(.)"?', re.IGNORECASE | re.DOTALL)
"""A first line that tells Excel, and is none of the table's, what stands between values."""
MAY_BE_WRAPPED = re.compile(WRAPPED.encode())

ESCAPED = (
    "a quote within quotes is written \\{quote}, and is to be doubled: write the file so, as Spark "
    "does by its option escape"
)


class ColumnTwice(ValueError):
    """A header names a column twice."""


@dataclass(frozen=True)
class Dialect:
    """How values are written."""

    delimiter: str
    quote_char: str
    null_values: list[str] | None
    """Texts that mean null, in every column; None: Arrow's own, except in text columns."""
    encoding: str | None = None
    """As the spec names it; records are UTF-8 all the same, but for what it has not."""

    def values(self, record: bytes) -> list[str]:
        """A record's values as they are written."""
        text = io.StringIO(record.decode(), newline="")
        try:
            return next(csv.reader(text, delimiter=self.delimiter, quotechar=self.quote_char))
        except csv.Error as error:
            raise ValueError(str(error)) from error

    def header(self, record: bytes | BadRow) -> list[str]:
        """The names in a file's first record."""
        if isinstance(record, BadRow):
            raise ValueError("the header cannot be read")
        try:
            names = self.values(record) if record else []
        except UnicodeDecodeError as error:
            raise ValueError(
                f"the header cannot be read: {not_utf8(error, self.encoding)}"
            ) from error
        if len(names) > MOST_COLUMNS:
            raise ValueError(f"the header has {len(names):,} columns; at most {MOST_COLUMNS:,} do")
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise ColumnTwice(f"the header has columns twice: {', '.join(map(repr, twice))}")
        return names

    def conversion(self, schema: pa.Schema | None = None) -> pc.ConvertOptions:
        """How values become what the schema says."""
        options = pc.ConvertOptions(strings_can_be_null=self.null_values is not None)
        if self.null_values is not None:
            options.null_values = self.null_values
        if schema is not None:
            options.column_types = schema
            options.include_columns = schema.names
            options.include_missing_columns = True  # which files may lack is seen by their headers
        return options


def escaped_quotes(dialect: Dialect) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Quotes behind a backslash that may close a value which goes on, and those that do.

    Arrow takes it for the end, and what follows for more of the value, another one than is meant.
    The first are quickly looked for, and hardly ever there where quotes are doubled.
    """
    d, q = (re.escape(each.encode()) for each in (dialect.delimiter, dialect.quote_char))
    opened, within = rb"(?:\A|\n|%b)%b" % (d, q), rb"(?:[^%b\\]|%b%b|\\(?!%b))*+" % (q, q, q, q)
    escaped = rb"\\%b[^%b%b\r\n]" % (q, q, d)
    return re.compile(escaped), re.compile(opened + within + escaped)


def has_backslash(table: pa.Table) -> bool:
    """Whether a text has one: else quotes behind such are in columns that nobody reads."""
    texts = (each for each in table.columns if is_text(each.type))
    return any(compute.any(compute.match_substring(each, "\\")).as_py() for each in texts)


def has_negative(column: pa.ChunkedArray) -> bool:
    """Whether some number in a column of whole ones is below zero."""
    return column.type == pa.int64() and (compute.min(column).as_py() or 0) < 0


class Parser:
    """Makes rows of the records of one file."""

    def __init__(self, dialect: Dialect, header: list[str], schema: pa.Schema) -> None:
        self.dialect = dialect
        self.header = header
        self.schema = schema
        self.parsing = pc.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote_char,
            newlines_in_values=True,
            ignore_empty_lines=False,
        )
        self.conversion = dialect.conversion(schema)
        self.escaped = escaped_quotes(dialect)
        self.without_value = [e.name for e in schema if e.metadata in (NO_VALUE, LATER_VALUE)]

    def rows(self, batch: Block | BadRow) -> Iterator[Read]:
        """Records as tables and bad rows."""
        if isinstance(batch, BadRow):
            yield batch
            return
        try:
            table = self.table(batch)
        except (ValueError, pa.ArrowException):
            yield from halved(batch.records(), self.of_records, self.explain)
        else:
            yield from reads_of(table)

    def of_records(self, records: list[bytes]) -> pa.Table:
        """Records as a table with a row for each."""
        return self.table(Block.of(records))

    def table(self, batch: Block) -> pa.Table:
        """Records as a table with a row for each."""
        block = batch.data
        block.decode()  # Arrow looks only at the columns it reads
        if b"\x00" in block:
            raise ValueError("the row has a NUL byte")
        table = self.converted(block, self.conversion)
        if self.may_escape(block) and has_backslash(table):
            raise ValueError(ESCAPED.format(quote=self.dialect.quote_char))
        if len(table) != len(batch):
            raise ValueError("the row has a carriage return outside quotes")
        if any_infinity(table):
            infinite = [name for name in table.column_names if has_infinity(table[name])]
            refuse_unwritten_infinity(table, self.as_written(block, infinite))
        if b"x" in block or b"X" in block:
            below = [each.name for each in table.schema if has_negative(table[each.name])]
            if below and MAY_BE_WRAPPED.search(block):
                refuse_wrapped(self.as_written(block, below))
        return self.with_nulls(table)

    def may_escape(self, block: bytes) -> bool:
        """Whether a quote behind a backslash may close a value which goes on."""
        return b"\\" in block and all(each.search(block) for each in self.escaped)

    def as_written(self, block: bytes, names: list[str]) -> pa.Table:
        """Some columns of records as texts."""
        written = pa.schema([(name, pa.string()) for name in names])
        return self.converted(block, replace(self.dialect, null_values=None).conversion(written))

    def with_nulls(self, table: pa.Table) -> pa.Table:
        """Rows with null for no value where that is all that the first file has in a column."""
        nulls = pa.array(self.conversion.null_values, pa.string())
        for name in self.without_value:
            is_null = compute.is_in(table[name], nulls)
            values = compute.if_else(is_null, pa.scalar(None, pa.string()), table[name])
            table = table.set_column(table.column_names.index(name), name, values)
        return table

    def converted(self, block: bytes, conversion: pc.ConvertOptions) -> pa.Table:
        """What Arrow makes of records."""
        if block.startswith(BOM):
            block = BOM + block  # else Arrow would take one from the first value
        reading = pc.ReadOptions(
            use_threads=False, block_size=len(block) + 1, column_names=self.header
        )
        return pc.read_csv(io.BytesIO(block), reading, self.parsing, conversion)

    def explain(self, record: bytes, error: Exception) -> str:
        """Why a record is no row, for a person."""
        if isinstance(error, UnicodeDecodeError):
            return not_utf8(error, self.dialect.encoding).replace("line", "row")
        conversion = CONVERSION.search(str(error))
        if conversion:
            said = conversion[2][:RAW_CHARACTERS]  # it holds the value
            name = self.header[int(conversion[1])]
            way_out = (
                f"; source.types: {{{name}: float64}} takes it" if FRACTION.search(said) else ""
            )
            return f"column {name!r}: {said}{way_out}"
        try:
            values = self.dialect.values(record)
        except (ValueError, StopIteration):
            return str(error)
        if len(values) != len(self.header):
            have, wanted = counted(len(values), "value"), counted(len(self.header), "column")
            is_comment = len(self.header) == 1 or self.header[0].startswith("#")
            way_out = ABOVE.format(self.header[0]) if is_comment and len(values) > 1 else ""
            return f"the row has {have} for {wanted}{way_out}"
        return str(error)
