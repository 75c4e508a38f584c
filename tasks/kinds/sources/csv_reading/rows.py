"""Makes rows of CSV records; of one that is no row it says why."""

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.csv as pc
from pyarrow import compute

from tasks.counted import counted
from tasks.kinds.column_types import LATER_VALUE, NO_VALUE, is_text
from tasks.kinds.sources.csv_reading import inferring
from tasks.kinds.sources.csv_reading.dialect import Dialect, escaped_quotes
from tasks.kinds.sources.csv_reading.records import Block
from tasks.kinds.sources.csv_reading.unusual import DAY, TIME, refusal, unusual
from tasks.kinds.sources.doubles import (
    WRAPPED,
    any_infinity,
    has_infinity,
    refuse_unwritten_infinity,
    refuse_wrapped,
)
from tasks.kinds.sources.sifting import sifted
from tasks.kinds.sources.source import BadRow, Read
from tasks.kinds.sources.text import BOM, RAW_CHARACTERS, not_utf8, reads_of

CONVERSION = re.compile(r"In CSV column #(\d+):.*?(conversion error to .*)", re.DOTALL)
WIDER = {
    re.compile(r"error to int64: invalid value '[-+]?\d*\.\d+'$"): "float64",
    re.compile(
        rf"error to (date32\[day\]|timestamp\[s\]): invalid value '{DAY}[ T]{TIME}(\.\d{{1,6}})?'$"
    ): "timestamp",
}
"""Values of a column that the first rows have whole numbers, days or seconds in, and the type that
takes them all."""
ABOVE = "; if {!r} is above the header, skip it with source.skip_lines"
MAY_BE_WRAPPED = re.compile(WRAPPED.encode())

ESCAPED = (
    "a quote within quotes is written \\{quote}, but must be doubled: write the file that way, "
    "in Spark with its option escape"
)
NUL = "the row has a NUL byte"
NUMBER = re.compile(inferring.NUMBER)
AGAIN = "it is the header again, as in joined files"
Ragged: TypeAlias = Callable[[pc.InvalidRow], str]
"""Says what becomes of a record with more values than there are columns, or fewer."""


def no_text(records: list[bytes], quote: bytes) -> dict[int, Exception | None]:
    """Records by their places that have bytes which they may not have; see `suspects`."""
    found: dict[int, Exception | None] = {}
    for at, record in enumerate(records):
        if not record.isascii():
            try:
                record.decode()
            except UnicodeDecodeError as error:
                found[at] = error
                continue
        if b"\x00" in record:
            found[at] = ValueError(NUL)
        elif b"\r" in record and quote not in record:  # to Arrow it ends the record
            found[at] = None
    return found


def has_backslash(table: pa.Table) -> bool:
    """Whether a text has one: else quotes behind such are in columns that nobody reads."""
    texts = (each for each in table.columns if is_text(each.type))
    return any(compute.any(compute.match_substring(each, "\\")).as_py() for each in texts)


def has_negative(column: pa.ChunkedArray) -> bool:
    """Whether some number in a column of whole ones is below zero."""
    return column.type == pa.int64() and (compute.min(column).as_py() or 0) < 0


def may_be_row(header: list[str]) -> bool:
    """Whether a row may have the names of all columns for values.

    One column's name may be a value, and so may numbers, which pandas names columns by.
    """
    return len(header) == 1 or all(NUMBER.match(name) for name in header)


class Parser:
    """Makes rows of the records of one file."""

    def __init__(
        self,
        dialect: Dialect,
        header: list[str],
        schema: pa.Schema,
        header_record: bytes | BadRow | None = None,
    ) -> None:
        """Of files written so.

        Args:
            dialect: how values are written.
            header: names of all columns.
            schema: of those that are read.
            header_record: the file's first, where that names the columns.
        """
        self.dialect = dialect
        self.header = header
        self.schema = schema
        self.headers: set[bytes] = set()
        """Records that name the columns again."""
        if isinstance(header_record, bytes) and not may_be_row(header):
            self.headers = {header_record, BOM + header_record}
        self.parsing = partial(
            pc.ParseOptions,
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
            records = batch.records()
            yield from sifted(records, self.suspects(records), self.of_records, self.explain)
        else:
            yield from reads_of(table)

    def suspects(self, records: list[bytes]) -> dict[int, Exception | None]:
        """Records by their places: those that surely are no rows, and why; None: those that may.

        Arrow names one bad record each time, and takes 0.2 ms to be asked.
        """
        found = no_text(records, self.dialect.quote_char.encode())
        again = (at for at, each in enumerate(records) if each in self.headers)
        found = {at: ValueError(AGAIN) for at in again} | found
        left = [at for at in range(len(records)) if at not in found]
        ragged: list[int] = []

        def pass_over(row: pc.InvalidRow) -> str:
            ragged.append(row.number - 1)
            return "skip"

        typed = [each for each in self.schema if not is_text(each.type)]
        block = b"".join(records[at] + b"\n" for at in left)
        try:
            written = self.as_written(block, [e.name for e in typed] or self.header[:1], pass_over)
        except pa.ArrowException:
            return found
        if len(written) + len(ragged) != len(left):
            return found
        for at in (left[place] for place in ragged):
            is_ragged = self.dialect.is_ragged(records[at], len(self.header))
            found[at] = ValueError("the row is ragged") if is_ragged else None
        rows = [at for at in left if at not in found]
        for each in typed:
            column = written[each.name]
            for place in unusual(column, each.type, self.conversion).tolist():
                if rows[place] not in found:  # of several Arrow names the first
                    found[rows[place]] = self.misfit(each, column[place].as_py())
        return found

    def misfit(self, column: pa.Field, value: str) -> Exception | None:
        """What Arrow says to an unusual value, where that is known."""
        said = refusal(value, column.type)
        at = self.header.index(column.name)
        return ValueError(f"In CSV column #{at}: {said}") if said else None

    def of_records(self, records: list[bytes]) -> pa.Table:
        """Records as a table with a row for each."""
        return self.table(Block.of(records))

    def table(self, batch: Block) -> pa.Table:
        """Records as a table with a row for each."""
        block = batch.data
        block.decode()  # Arrow looks only at the columns it reads
        if b"\x00" in block:
            raise ValueError(NUL)
        if self.may_have_header(block) and not self.headers.isdisjoint(batch.records()):
            raise ValueError(AGAIN)
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

    def may_have_header(self, block: bytes) -> bool:
        """Whether a line is the file's first, as where several files were joined."""
        lines = (each + b"\n" for each in self.headers)
        return any(block.startswith(each) or b"\n" + each in block for each in lines)

    def may_escape(self, block: bytes) -> bool:
        """Whether a quote behind a backslash may close a value which goes on."""
        return b"\\" in block and all(each.search(block) for each in self.escaped)

    def as_written(self, block: bytes, names: list[str], ragged: Ragged | None = None) -> pa.Table:
        """Some columns of records as texts.

        Args:
            block: the records.
            names: of the columns.
            ragged: what becomes of records of more or fewer values; None: an error.
        """
        written = pa.schema([(name, pa.string()) for name in names])
        conversion = replace(self.dialect, null_values=None).conversion(written)
        return self.converted(block, conversion, ragged)

    def with_nulls(self, table: pa.Table) -> pa.Table:
        """Rows with null for no value where that is all that the first file has in a column."""
        nulls = pa.array(self.conversion.null_values, pa.string())
        for name in self.without_value:
            is_null = compute.is_in(table[name], nulls)
            values = compute.if_else(is_null, pa.scalar(None, pa.string()), table[name])
            table = table.set_column(table.column_names.index(name), name, values)
        return table

    def converted(
        self, block: bytes, conversion: pc.ConvertOptions, ragged: Ragged | None = None
    ) -> pa.Table:
        """What Arrow makes of records."""
        if block.startswith(BOM):
            block = BOM + block  # else Arrow would take one from the first value
        reading = pc.ReadOptions(
            use_threads=False, block_size=len(block) + 1, column_names=self.header
        )
        parsing = self.parsing(invalid_row_handler=ragged)
        return pc.read_csv(io.BytesIO(block), reading, parsing, conversion)

    def explain(self, record: bytes, error: Exception) -> str:
        """Why a record is no row, for a person."""
        if isinstance(error, UnicodeDecodeError):
            return not_utf8(error, self.dialect.encoding).replace("line", "row")
        conversion = CONVERSION.search(str(error))
        if conversion:
            said = conversion[2][:RAW_CHARACTERS]  # it holds the value
            name = self.header[int(conversion[1])]
            takes = (wider for pattern, wider in WIDER.items() if pattern.search(said))
            ways_out = (f"; set source.types: {{{name}: {wider}}}" for wider in takes)
            return f"column {name!r}: {said}{next(ways_out, '')}"
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
